// Displayed formulas, by the KaTeX that lies beside this file: nothing is loaded from elsewhere.
document.querySelectorAll(".arithmatex").forEach((place) => {
  const text = place.textContent.trim().replace(/^\\\[|\\\]$/g, "");
  katex.render(text, place, { displayMode: true, throwOnError: false });
});
