// Added to a copy of the report: sends the positions of the charts and the width of the content to the enclosing page.
addEventListener("load", () => {
  const outermost = [...document.querySelectorAll("svg, canvas")].filter((chart) => !chart.parentElement.closest("svg"));
  const charts = outermost
    .filter((chart) => chart.checkVisibility())
    .map((chart) => ({ kind: chart.getAttribute("class"), box: chart.getBoundingClientRect() }))
    .filter(({ box }) => box.width >= 100 && box.height >= 40);
  const rectangles = charts.map(({ box }) => [box.left + scrollX, box.top + scrollY, box.width, box.height]);
  const page = document.documentElement;
  const told = { charts: rectangles, kinds: charts.map(({ kind }) => kind), content: page.scrollWidth, window: page.clientWidth, height: page.scrollHeight };
  told.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  told.letters = document.body.innerText.length;
  parent.postMessage(JSON.stringify(told), "*");
});
