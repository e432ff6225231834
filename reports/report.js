// Draws the figures of a report, in the reader's colours and at the reader's width.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const source = document.getElementById("drawings").textContent;
  const { dark, figures } = JSON.parse(source);
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = {}; // figure -> which of its views is shown
  const names = Object.keys(dark);
  let printing = false;

  // The figure as a fresh object, with every colour swapped for its partner where the page is dark.
  function figure(name) {
    let text = JSON.stringify(figures[name][chosen[name] || 0]);
    if (night.matches && !printing) for (const colour of names) text = text.replaceAll(`"${colour}"`, `"${dark[colour]}"`);
    return JSON.parse(text);
  }

  function draw(plot) {
    const { data, layout } = figure(plot.dataset.name);
    const narrow = plot.clientWidth < 520;
    const entries = data.filter((trace) => trace.showlegend !== false && trace.name).length;
    if (narrow) {
      layout.font.size = 11;
      layout.legend.font = { size: 11 };
      for (const key of ["xaxis", "yaxis"]) if (layout[key] && layout[key].tickvals) layout[key].tickfont = { size: 10 };
      layout.height += 18 * Math.max(0, entries - 1);
    }
    if (printing) layout.width = 680;
    const config = { responsive: !printing, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
      toImageButtonOptions: { format: "svg", filename: plot.dataset.name } };
    Plotly.react(plot, data, layout, config);
  }

  const plots = [...document.querySelectorAll(".plot")];
  if (!window.Plotly) {
    for (const plot of plots) plot.textContent = "plotly.min.js is not beside this page, so there is no figure here.";
    return;
  }
  const drawAll = () => plots.forEach(draw);
  drawAll();
  night.addEventListener("change", drawAll);
  window.matchMedia("(max-width: 600px)").addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });

  for (const button of document.querySelectorAll("button[data-view]")) {
    button.addEventListener("click", () => {
      chosen[button.dataset.plot] = Number(button.dataset.view);
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
      draw(plots.find((plot) => plot.dataset.name === button.dataset.plot));
    });
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      window.getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
        setTimeout(() => { button.textContent = "copy"; }, 1500);
      } catch { button.textContent = "selected"; }
    });
  }
});
