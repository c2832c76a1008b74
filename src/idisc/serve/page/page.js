// The served page: a photo goes to the server, its scene comes back and is shown by viewer.js; downloads,
// normals. Known distances are in known_distances.js, as in the offline viewer, the IDRs in explorer.js.
// Nothing is loaded from anywhere else.
import { openExplorer } from "./explorer.js";

const byId = (id) => document.getElementById(id);
const health = await fetch("/health").then((answer) => answer.json());
const current = { photo: null, scene: null }; // what is shown; changes when something else is, not before
let drawn = Promise.resolve(); // when all drawings asked for so far are done
let stopped = new AbortController(); // for what is going on now

byId("about").textContent = `Model ${health.model}, domain ${health.domain}. Up to ${health.megapixels} megapixels and ${health.upload_mb} MB. `
  + byId("about").textContent;
wireIntake();
await showExamples();
document.documentElement.dataset.ready = "intake";

// Talking to the server

const UNREACHABLE = "The server cannot be reached; does it still run?";

class Problem extends Error {
  constructor(status, message, retry) {
    super(message);
    Object.assign(this, { status, retry });
  }
}

/** A refusal: its status, its body as JSON or nothing, and its header Retry-After. */
function refused(status, body, retryAfter) {
  return new Problem(status, body?.error ?? "no answer that can be read", Number(retryAfter) || 0);
}

/** Ask again while the line is full; other errors are thrown. */
async function patiently(ask, signal) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 429) throw error;
      for (let left = error.retry || 1; left > 0; left--) {
        say(`The server is busy; trying again in ${left}\u202fs.`, null, "The server is busy; trying again soon.");
        byId("stop").hidden = false;
        await pause(1000, signal);
      }
    }
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); });
  });
}

/** A request whose refusals are errors with the server's own words. */
function request(path, options = {}, signal = stopped.signal) {
  return patiently(async () => {
    const answer = await fetch(path, { ...options, signal }).catch((error) => {
      throw error.name === "AbortError" ? error : new Problem(0, UNREACHABLE);
    });
    if (!answer.ok) throw refused(answer.status, await answer.json().catch(() => null), answer.headers.get("Retry-After"));
    return answer;
  }, signal);
}

/** An upload, with progress; fetch has none. */
function upload(file, advance, signal) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file, file.name || "photo");
    call.open("POST", "/predict?format=json");
    call.responseType = "json";
    call.upload.onprogress = (event) => advance(event.loaded / event.total);
    call.onload = () => {
      if (call.status === 200) resolve(call.response);
      else reject(refused(call.status, call.response, call.getResponseHeader("Retry-After")));
    };
    call.onerror = () => reject(new Problem(0, UNREACHABLE));
    signal.addEventListener("abort", () => { call.abort(); reject(signal.reason); });
    call.send(form);
  });
}

// What is going on

/** `spoken` is what a screen reader says: without numbers that change, because it says each change. */
function say(text, share = null, spoken = text) {
  byId("status").hidden = !text;
  byId("status").classList.remove("bad");
  byId("message").textContent = text;
  if (byId("spoken").textContent !== spoken) byId("spoken").textContent = spoken;
  if (share !== null) {
    byId("meter").firstElementChild.style.width = `${100 * share}%`;
    byId("meter").setAttribute("aria-valuenow", Math.round(100 * share));
  }
  if (!text) byId("stop").hidden = true;
}

function complain(error) {
  if (error?.name === "AbortError") return; // who stopped it says what goes on now
  if (!(error instanceof Problem)) console.error(error);
  say(error instanceof Problem ? error.message : `The page made a mistake: ${error.message}`, 0);
  byId("status").classList.add("bad");
  byId("stop").hidden = true;
}

/** While the network works: how many are before us, and how long it usually takes. */
async function watchLine(signal) {
  const start = performance.now();
  let line = health;
  for (let tick = 0; !signal.aborted; tick++) {
    if (tick % 4 === 0) line = await fetch("/health", { signal }).then((answer) => answer.json()).catch(() => line);
    if (signal.aborted) return;
    const passed = (performance.now() - start) / 1000;
    const ahead = Math.max(0, line.waiting - 1);
    const expected = line.typical_s * (ahead + 1);
    const about = `about ${Math.max(1, Math.ceil(expected - passed))}\u202fs`;
    const task = ahead ? `${ahead} ${ahead === 1 ? "other is" : "others are"} in the line` : "Computing depth";
    say(`${task}, ${about}.`, 0.2 + 0.75 * (1 - Math.exp(-1.5 * passed / expected)), `${task}.`);
    await pause(300, signal).catch(() => null);
  }
}

// A photo

function wireIntake() {
  byId("file").addEventListener("change", (event) => {
    if (event.target.files[0]) take(event.target.files[0]);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => { event.preventDefault(); byId("intake").classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) addEventListener(name, () => byId("intake").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    if (event.clipboardData.files[0]) take(event.clipboardData.files[0]);
  });
  byId("stop").addEventListener("click", () => { stopAll(); say(""); });
  addEventListener("pagehide", (event) => event.persisted || forget(current.photo)); // or the reader may come back
}

async function showExamples() {
  const { photos, credits } = await fetch("/examples").then((answer) => answer.json());
  byId("examples").hidden = !photos.length;
  byId("credits").hidden = !credits;
  byId("credits").firstElementChild.href = `/examples/${encodeURIComponent(credits)}`;
  document.querySelector(".shelf").append(...photos.map(({ file, title }) => {
    const button = document.createElement("button");
    const picture = document.createElement("img");
    const address = `/examples/${encodeURIComponent(file)}`;
    button.type = "button";
    Object.assign(picture, { src: address, alt: `Example: ${title}`, loading: "lazy" });
    button.append(picture);
    button.addEventListener("click", async () => {
      try {
        const content = await (await request(address)).blob();
        take(new File([content], file, { type: content.type }));
      } catch (error) {
        complain(error);
      }
    });
    return button;
  }));
}

/** Stop what is going on; what is shown can still be worked with. */
function stopAll() {
  stopped.abort();
  stopped = new AbortController();
}

async function take(file) {
  stopAll();
  const { signal } = stopped;
  const photo = { token: "", known: "" }; // the server's name of its result; known distances of it
  byId("stop").hidden = false;
  try {
    if (file.size > health.upload_mb * 1e6) {
      throw new Problem(413, `${file.name}: ${(file.size / 1e6).toFixed(1)} MB, at most ${health.upload_mb} here; reduce it first.`);
    }
    const answer = await patiently(async () => {
      say("Sending the photo.", 0);
      const arrived = new AbortController();
      try {
        return await upload(file, (share) => {
          if (share < 1) say(`Sending the photo, ${Math.round(100 * share)}\u202f%.`, 0.2 * share, "Sending the photo.");
          else watchLine(AbortSignal.any([arrived.signal, signal]));
        }, signal);
      } finally {
        arrived.abort();
      }
    }, signal);
    photo.token = answer.result;
    if (!signal.aborted) say("Drawing.", 0.97);
    await show(photo, signal);
    say("", null, "Depth is ready.");
    if (byId("intake").contains(document.activeElement)) byId("title").focus({ preventScroll: true });
    byId("title").scrollIntoView({ block: "start" });
  } catch (error) {
    forget(photo);
    if (!signal.aborted) complain(error);
  }
}

/** Let the server forget the result of a photo. */
function forget(photo) {
  if (photo?.token) fetch(`/results/${photo.token}`, { method: "DELETE", keepalive: true }).catch(() => null);
  if (photo) photo.token = "";
}

// A result

/** Show a photo's result, once earlier drawings are done: each finds the page as the last one left it. */
function show(photo, signal = stopped.signal) {
  const drawing = drawn.then(() => draw(photo, signal));
  drawn = drawing.catch(() => null); // who asked for it is told
  return drawing;
}

async function draw(photo, signal) {
  if (!photo.token) return; // another one has taken its place
  const address = `/results/${photo.token}/view${photo.known ? `?${new URLSearchParams({ known_distance: photo.known })}` : ""}`;
  const data = await (await request(address, {}, signal)).json();
  const focused = byId("scene").contains(document.activeElement);
  const root = document.createElement("div"); // a new one: what is late still finds the old one
  root.append(byId("scene-template").content.cloneNode(true));
  for (const picture of root.querySelectorAll("#picture img, #explored img")) picture.src = data.photo;
  current.scene?.close();
  byId("scene").replaceChildren(root);
  const scene = await viewer.open(root, data);
  const before = current.photo;
  Object.assign(current, { photo, scene });
  if (before !== photo) forget(before);
  tell(data);
  wireShown(photo);
  wireDownloads(photo);
  knownDistances.wire(root, scene, data.record, (distances) => rescale(photo, data.record, distances));
  wireExplorer(photo, scene, data, root);
  scene.show();
  if (focused) byId("title").focus({ preventScroll: true }); // or the keyboard would begin again at the top of the page
  document.documentElement.dataset.ready = scene.hasCloud ? "3d" : "2d";
}

/** Downloads contain the known distances. Two of them turn relative depth into metres, which is drawn anew. */
async function rescale(photo, { unit, provenance }, distances) {
  const relative = unit === "relative";
  if (relative && distances.length < 2) return;
  photo.known = distances.join("; ");
  if (!relative && !provenance.alignment) return; // the viewer has done it
  try {
    await show(photo);
    say("", null, relative ? "Depth is in metres." : "Depth is relative again.");
  } catch (error) {
    photo.known = "";
    complain(error);
  }
}

function tell(data) {
  byId("title").textContent = data.name;
  document.title = `${data.name}: depth`;
  if (data.unit === "relative") byId("shown-note").textContent = "along the camera's axis, relative";
  byId("lead").textContent = `Depth along the camera's axis ${data.unit === "relative" ? "in relative units, without metres" : "in metres"}. Camera: ${data.description.camera}.`;
  const messages = data.record.provenance.warnings.map((warning) => warning.message);
  byId("warning").hidden = !messages.length;
  byId("warning").textContent = messages.join("; ");
  byId("provenance").replaceChildren(...Object.entries(data.description).flatMap(([key, text]) => {
    const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, detail.textContent] = [key, text];
    return [term, detail];
  }));
}

function wireShown(photo) {
  const picture = document.querySelector("#depth .normals");
  const [depth, normals] = document.querySelectorAll("[name=shown]");
  const note = byId("shown-note");
  const ofDepth = note.textContent;
  const change = async () => {
    try {
      if (normals.checked && !picture.getAttribute("src")) {
        const answer = await request(`/results/${photo.token}/file?format=normals`);
        picture.src = URL.createObjectURL(await answer.blob());
        picture.onload = () => URL.revokeObjectURL(picture.src);
        say("");
      }
    } catch (error) {
      depth.checked = true;
      complain(error);
    }
    picture.hidden = !normals.checked;
    picture.alt = normals.checked ? "Surface normals" : "";
    note.textContent = normals.checked ? "of depth and camera; right red, down green, away blue" : ofDepth;
  };
  for (const choice of [depth, normals]) choice.addEventListener("change", change);
}

function wireDownloads(photo) {
  for (const button of document.querySelectorAll("[data-format]")) {
    button.addEventListener("click", async () => {
      button.setAttribute("aria-busy", "true");
      try {
        const wanted = new URLSearchParams({ format: button.dataset.format });
        if (photo.known) wanted.set("known_distance", photo.known);
        const answer = await request(`/results/${photo.token}/file?${wanted}`);
        const name = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("Content-Disposition"))?.[1];
        const link = document.createElement("a");
        link.href = URL.createObjectURL(await answer.blob());
        link.download = decodeURIComponent(name ?? "depth");
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
        say("");
      } catch (error) {
        complain(error);
      } finally {
        button.removeAttribute("aria-busy");
      }
    });
  }
}

function wireExplorer(photo, scene, data, root) {
  const look = byId("look");
  if (health.explorer_missing) {
    byId("inside-lead").textContent = health.explorer_missing;
    look.hidden = true;
    return;
  }
  const open = async () => {
    const focused = document.activeElement === look;
    look.disabled = true;
    try {
      say("Looking inside.", 0.5);
      const path = `/results/${photo.token}`;
      const about = await (await request(`${path}/explain`, { method: "POST" })).json();
      const maps = await (await request(`${path}/maps`)).arrayBuffer();
      const mute = async (muted) => {
        const answer = await request(`${path}/mute`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ muted }),
        });
        say(""); // no more of a full line or an earlier refusal
        return answer.json();
      };
      await openExplorer({ root, scene, data, about, maps, mute, complain });
      look.hidden = true;
      if (focused) root.querySelector("#explorer").focus({ preventScroll: true });
      say("", null, "The IDRs are shown.");
    } catch (error) {
      complain(error);
    }
    look.disabled = false;
  };
  look.addEventListener("click", open);
}
