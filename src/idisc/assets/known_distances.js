// Known distances: the true distance between two marks rescales the whole page. Several are averaged. The
// page offers each as an option of `idisc predict`, and the factor as a file for `--scale-from`: the record of
// the prediction with one more rescaling. Relative depth has no factor: two distances give it metres, which
// `idisc predict` or the server computes. `changed` is called with the distances, as texts.
"use strict";
globalThis.knownDistances = { wire(root, scene, record, changed = null) {
  const byId = (id) => root.querySelector(`#${id}`);
  const known = []; // { first, second: (x, y) in pixels, metres: true, predicted: metres }
  const form = byId("true-distance");
  const relative = record.unit === "relative";
  const aligned = record.provenance.alignment; // relative depth that has become metres
  const fileName = `${record.provenance.picture.replace(/\.[^.]*$/, "")}_scale.json`;

  scene.watch(({ marks }) => {
    const opened = form.hidden && marks.length === 2;
    form.hidden = marks.length !== 2 || Boolean(aligned);
    if (opened) byId("true-metres").value = relative ? "" : scene.between().toFixed(2);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [first, second] = scene.state.marks.map(scene.pixel);
    const predicted = scene.between() / scene.state.scale;
    if (!(predicted > 1e-6)) return; // the same pixel twice
    known.push({ first, second, metres: Number(byId("true-metres").value), predicted });
    if (relative) known.splice(0, known.length - 2);
    scene.state.marks = [];
    update();
  });
  byId("scale-reset").addEventListener("click", () => { known.length = 0; update(); });
  byId("scale-download").addEventListener("click", download);
  byId("scale-copy").addEventListener("click", (event) => copy(byId("scale-option"), event.target));

  if (aligned && changed) {
    byId("scale-summary").textContent = `In metres by known distances: ${aligned.known.map(text).join(" and ")}.`;
    byId("distances").hidden = !(byId("scale-download").hidden = byId("scale-elsewhere").hidden = true);
  }

  /** The geometric mean of all factors, and the largest over the smallest. */
  function agreement() {
    const factors = known.map(({ metres, predicted }) => metres / predicted);
    const mean = Math.exp(factors.reduce((sum, factor) => sum + Math.log(factor), 0) / factors.length);
    return { mean, range: Math.max(...factors) / Math.min(...factors) };
  }

  function update() {
    byId("distances").hidden = !known.length;
    byId("distance-list").replaceChildren(...known.map(row));
    byId("scale-option").textContent = `--scale-from "${fileName}"`;
    byId("scale-download").hidden = byId("scale-elsewhere").hidden = relative;
    changed?.(known.map(text));
    if (relative) {
      const complete = known.length === 2 && !changed; // the server computes metres itself
      byId("scale-summary").textContent = complete
        ? "Run the same command again with both options: its results are then in metres."
        : "Relative depth: two known distances, one near and one far, give metres.";
      return scene.show();
    }
    if (!known.length) return scene.rescale(1);
    const { mean, range } = agreement();
    const many = known.length > 1
      ? `, the mean of ${known.length} distances, whose factors differ by ${(100 * (range - 1)).toFixed(1)}\u202f%` : "";
    byId("scale-summary").textContent = `All distances on this page are multiplied by ${mean.toPrecision(4)}${many}.`;
    const doubts = [];
    if (range > 1.1) doubts.push("The distances disagree; check their ends.");
    if (Math.max(mean, 1 / mean) > 10) doubts.push("This is a large factor; check the ends and the unit.");
    byId("scale-doubt").textContent = doubts.join(" ");
    scene.rescale(mean);
  }

  function text({ first, second, metres }) {
    return `${first.join(",")} ${second.join(",")} = ${metres}m`;
  }

  function row(distance) {
    const { metres, predicted } = distance;
    const [line, option, about] = ["li", "code", "span"].map((name) => document.createElement(name));
    option.textContent = `--known-distance "${text(distance)}"`;
    about.textContent = relative ? "" : `predicted ${predicted.toPrecision(4)}\u202fm, factor ${(metres / predicted).toPrecision(4)}`;
    const remove = button("Remove", () => { known.splice(known.indexOf(distance), 1); update(); });
    line.append(option, button("Copy", (event) => copy(option, event.target)), about, remove);
    return line;
  }

  function button(text, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  }

  /** To the clipboard; where a browser refuses it for local files, the text is selected instead. */
  async function copy(element, pressed) {
    getSelection().selectAllChildren(element);
    try {
      await navigator.clipboard.writeText(element.textContent);
      pressed.textContent = "Copied";
    } catch {
      pressed.textContent = "Press Ctrl-C";
    }
  }

  function download() {
    const content = structuredClone(record);
    const distances = known.map(({ first, second, metres }) => ({ first, second, metres }));
    const { mean: factor, range: disagreement } = agreement();
    content.provenance.rescalings.push({ factor, known: distances, disagreement });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${JSON.stringify(content, null, 2)}\n`], { type: "application/json" }));
    link.download = fileName;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
} };
