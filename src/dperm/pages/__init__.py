"""Pages about a release: what they say, as data, and as HTML or Markdown."""
