(function () {
  "use strict";
  var root = document.documentElement;
  root.classList.add("js");
  function all(selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); }

  // The system's colour scheme applies until the reader presses the button.
  var theme = document.getElementById("theme");
  var prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches; }
  function nameTheme() { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours"); }
  theme.hidden = false;
  nameTheme();
  theme.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  if (prefersDark.addEventListener) { prefersDark.addEventListener("change", nameTheme); }

  // Selecting a group in one set of tabs selects it in all others.
  all(".tabs > input").forEach(function (input) {
    input.addEventListener("change", function () {
      all(".tabs > input").forEach(function (other) { if (other.dataset.group === input.dataset.group) { other.checked = true; } });
    });
  });

  // The legend hides, shows and highlights curves.
  function parts(button) {
    return all("[data-series]", button.closest(".panel")).filter(function (part) { return part.tagName !== "BUTTON" && part.dataset.series === button.dataset.series; });
  }
  function point(button, on) {
    all(".curve, .marks", button.closest(".panel")).forEach(function (part) { part.classList.toggle("muted", on && part.dataset.series !== button.dataset.series); });
  }
  all(".legend button").forEach(function (button) {
    button.addEventListener("click", function () {
      var shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      parts(button).forEach(function (part) { part.classList.toggle("gone", !shown); });
    });
    ["mouseenter", "focus"].forEach(function (type) { button.addEventListener(type, function () { if (button.getAttribute("aria-pressed") === "true") { point(button, true); } }); });
    ["mouseleave", "blur", "click"].forEach(function (type) { button.addEventListener(type, function () { point(button, false); }); });
  });

  // Printing opens the evidence and the method. Time sequences are printed only if the reader opened them.
  window.addEventListener("beforeprint", function () {
    all(".answer details, .finding details, .claim details, #method details").forEach(function (one) { one.open = true; });
  });

  // Shows SVG titles as tooltips: the title of a whole lane, or of the mark nearest to the pointer.
  var tip = document.getElementById("tip");
  var near = null;
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var width = tip.offsetWidth, left = Math.min(Math.max(8, x + 14), window.innerWidth - width - 8);
    tip.style.left = (left + window.scrollX) + "px";
    tip.style.top = (y + window.scrollY + 16) + "px";
  }
  function hide() { tip.hidden = true; if (near) { near.classList.remove("near"); near = null; } }
  all("svg title").forEach(function (title) { title.parentNode.dataset.tip = title.textContent; title.remove(); });
  all("svg.lane[data-tip]").forEach(function (lane) {
    var row = lane.closest(".lane-row");
    row.addEventListener("pointermove", function (event) { show(lane.dataset.tip, event.clientX, event.clientY); });
    row.addEventListener("pointerleave", hide);
  });
  all("svg.chart").forEach(function (chart) {
    chart.addEventListener("pointermove", function (event) {
      var best = null, least = 26 * 26;
      all(".mark", chart).forEach(function (mark) {
        var box = mark.getBoundingClientRect();
        if (!box.width) { return; }
        var dx = box.left + box.width / 2 - event.clientX, dy = box.top + box.height / 2 - event.clientY, far = dx * dx + dy * dy;
        if (far < least) { least = far; best = mark; }
      });
      if (near !== best) { hide(); }
      if (best) { near = best; best.classList.add("near"); show(best.dataset.tip, event.clientX, event.clientY); }
    });
    chart.addEventListener("pointerleave", hide);
  });

  // A click on a title sorts; a second click reverses the order. Rows without a figure stay last.
  all("table.sortable thead th").forEach(function (header) {
    var column = header.cellIndex, button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    header.textContent = "";
    header.appendChild(button);
    button.addEventListener("click", function () {
      var up = header.getAttribute("aria-sort") !== "ascending", body = header.closest("table").tBodies[0];
      all("th[aria-sort]", header.parentNode).forEach(function (other) { other.removeAttribute("aria-sort"); });
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
      var rows = all("tr", body);
      rows.sort(function (a, b) {
        var one = a.cells[column], other = b.cells[column];
        if (!header.classList.contains("figure")) { return (up ? 1 : -1) * one.textContent.localeCompare(other.textContent); }
        var first = "key" in one.dataset, second = "key" in other.dataset;
        if (!first || !second) { return Number(second) - Number(first); }
        return (up ? 1 : -1) * (Number(one.dataset.key) - Number(other.dataset.key));
      });
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
})();
