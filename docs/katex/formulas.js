// Formulas, by the KaTeX that lies beside this file: nothing is loaded from elsewhere.
document.querySelectorAll(".arithmatex").forEach((place) => {
  const text = place.textContent.trim().replace(/^\\\[|\\\]$/g, "");
  katex.render(text, place, { displayMode: true, throwOnError: false });
});
// Those of the prose were translated from Unicode, which stays where KaTeX does not take the translation.
document.querySelectorAll("span.formula").forEach((place) => {
  const plain = place.textContent;
  try {
    katex.render(place.dataset.tex, place, { throwOnError: true, strict: "ignore" });
  } catch (error) {
    place.textContent = plain;
  }
});
