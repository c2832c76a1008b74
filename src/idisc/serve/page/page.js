// The page of `idisc serve`: uploads a photo, shows its scene with viewer.js, and offers downloads and
// normals. Known distances are in known_distances.js, as in the offline viewer, and IDRs in explorer.js.
// Nothing is loaded from other servers.
import { openExplorer } from "./explorer.js";

const byId = (id) => document.getElementById(id);
const health = await fetch("/health").then((answer) => answer.json());
const current = { photo: null, scene: null }; // the result on the page
let lastDrawing = Promise.resolve(); // settles when all requested drawings are done
let task = new AbortController(); // stops the current upload and its drawing

byId("about").textContent = `Model ${health.model}, domain ${health.domain}. Up to ${health.megapixels} megapixels and ${health.upload_mb} MB. `
  + byId("about").textContent;
wireIntake();
await showExamples();
document.documentElement.dataset.ready = "intake";

// Requests

const UNREACHABLE = "The server cannot be reached. Is it still running?";

class ServerError extends Error {
  constructor(status, message, retry) {
    super(message);
    Object.assign(this, { status, retry });
  }
}

/** Returns the error for a status, a JSON body (null if it is not JSON) and a header Retry-After. */
function serverError(status, body, retryAfter) {
  return new ServerError(status, body?.error ?? "The server sent an unreadable response.", Number(retryAfter) || 0);
}

/** Sends a request again while the queue of the server is full; throws other errors. */
async function retryWhileBusy(send, signal) {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      if (error.status !== 429) throw error;
      for (let left = error.retry || 1; left > 0; left--) {
        showStatus(`The server is busy; trying again in ${left}\u202fs.`, null, "The server is busy; trying again soon.");
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

/** Fetches a path; the error has the message of the server. */
function request(path, options = {}, signal = task.signal) {
  return retryWhileBusy(async () => {
    const answer = await fetch(path, { ...options, signal }).catch((error) => {
      throw error.name === "AbortError" ? error : new ServerError(0, UNREACHABLE);
    });
    if (!answer.ok) throw serverError(answer.status, await answer.json().catch(() => null), answer.headers.get("Retry-After"));
    return answer;
  }, signal);
}

/** Uploads a photo with XMLHttpRequest, because fetch reports no progress. */
function upload(file, showProgress, signal) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file, file.name || "photo");
    call.open("POST", "/predict?format=json");
    call.responseType = "json";
    call.upload.onprogress = (event) => showProgress(event.loaded / event.total);
    call.onload = () => {
      if (call.status === 200) resolve(call.response);
      else reject(serverError(call.status, call.response, call.getResponseHeader("Retry-After")));
    };
    call.onerror = () => reject(new ServerError(0, UNREACHABLE));
    signal.addEventListener("abort", () => { call.abort(); reject(signal.reason); });
    call.send(form);
  });
}

// Status

/** `spoken` is for screen readers, which read every change: it has no numbers that count. */
function showStatus(text, share = null, spoken = text) {
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

function showError(error) {
  if (error?.name === "AbortError") return; // the status is that of the next task
  if (!(error instanceof ServerError)) console.error(error);
  showStatus(error instanceof ServerError ? error.message : `Error in this page: ${error.message}`, 0);
  byId("status").classList.add("bad");
  byId("stop").hidden = true;
}

/** Shows the number of requests ahead in the queue and the expected time, until `signal`. */
async function watchQueue(signal) {
  const start = performance.now();
  let queue = health;
  for (let tick = 0; !signal.aborted; tick++) {
    if (tick % 4 === 0) queue = await fetch("/health", { signal }).then((answer) => answer.json()).catch(() => queue);
    if (signal.aborted) return;
    const passed = (performance.now() - start) / 1000;
    const ahead = Math.max(0, queue.waiting - 1);
    const expected = queue.typical_s * (ahead + 1);
    const remaining = `about ${Math.max(1, Math.ceil(expected - passed))}\u202fs`;
    const activity = ahead ? `Waiting for ${ahead} other request${ahead === 1 ? "" : "s"}` : "Computing depth";
    showStatus(`${activity}, ${remaining}.`, 0.2 + 0.75 * (1 - Math.exp(-1.5 * passed / expected)), `${activity}.`);
    await pause(300, signal).catch(() => null);
  }
}

// A photo

function wireIntake() {
  byId("file").addEventListener("change", (event) => {
    if (event.target.files[0]) predict(event.target.files[0]);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => { event.preventDefault(); byId("intake").classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) addEventListener(name, () => byId("intake").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) predict(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    if (event.clipboardData.files[0]) predict(event.clipboardData.files[0]);
  });
  byId("stop").addEventListener("click", () => { stopTask(); showStatus(""); });
  addEventListener("pagehide", (event) => event.persisted || forget(current.photo)); // a persisted page may be shown again
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
        predict(new File([content], file, { type: content.type }));
      } catch (error) {
        showError(error);
      }
    });
    return button;
  }));
}

/** Stops the current task; the result on the page stays usable. */
function stopTask() {
  task.abort();
  task = new AbortController();
}

async function predict(file) {
  stopTask();
  const { signal } = task;
  const photo = { token: "", known: "" }; // the token of its result, and its known distances
  byId("stop").hidden = false;
  try {
    if (file.size > health.upload_mb * 1e6) {
      throw new ServerError(413, `${file.name}: ${(file.size / 1e6).toFixed(1)} MB, at most ${health.upload_mb} here; reduce it first.`);
    }
    const answer = await retryWhileBusy(async () => {
      showStatus("Sending the photo.", 0);
      const arrived = new AbortController();
      try {
        return await upload(file, (share) => {
          if (share < 1) showStatus(`Sending the photo, ${Math.round(100 * share)}\u202f%.`, 0.2 * share, "Sending the photo.");
          else watchQueue(AbortSignal.any([arrived.signal, signal]));
        }, signal);
      } finally {
        arrived.abort();
      }
    }, signal);
    photo.token = answer.result;
    if (!signal.aborted) showStatus("Drawing.", 0.97);
    await show(photo, signal);
    showStatus("", null, "Depth is ready.");
    if (byId("intake").contains(document.activeElement)) byId("title").focus({ preventScroll: true });
    byId("title").scrollIntoView({ block: "start" });
  } catch (error) {
    forget(photo);
    if (!signal.aborted) showError(error);
  }
}

/** Asks the server to drop the result of a photo. */
function forget(photo) {
  if (photo?.token) fetch(`/results/${photo.token}`, { method: "DELETE", keepalive: true }).catch(() => null);
  if (photo) photo.token = "";
}

// A result

/** Shows a photo's result after all earlier drawings, because they change the same elements. */
function show(photo, signal = task.signal) {
  const drawing = lastDrawing.then(() => draw(photo, signal));
  lastDrawing = drawing.catch(() => null); // the caller handles the error
  return drawing;
}

async function draw(photo, signal) {
  if (!photo.token) return; // another photo has replaced it
  const address = `/results/${photo.token}/view${photo.known ? `?${new URLSearchParams({ known_distance: photo.known })}` : ""}`;
  const data = await (await request(address, {}, signal)).json();
  const focused = byId("scene").contains(document.activeElement);
  const root = document.createElement("div"); // a new one, because late callbacks use the old one
  root.append(byId("scene-template").content.cloneNode(true));
  for (const picture of root.querySelectorAll("#picture img, #explored img")) picture.src = data.photo;
  current.scene?.close();
  byId("scene").replaceChildren(root);
  const scene = await viewer.open(root, data);
  const before = current.photo;
  Object.assign(current, { photo, scene });
  if (before !== photo) forget(before);
  describe(data);
  wireShown(photo);
  wireDownloads(photo);
  knownDistances.wire(root, scene, data.record, (distances) => rescale(photo, data.record, distances));
  wireExplorer(photo, scene, data, root);
  scene.show();
  if (focused) byId("title").focus({ preventScroll: true }); // otherwise the focus would return to the top of the page
  document.documentElement.dataset.ready = scene.hasCloud ? "3d" : "2d";
}

/** Applies known distances to downloads. Two of them turn relative depth into metres, which is drawn again. */
async function rescale(photo, { unit, provenance }, distances) {
  const relative = unit === "relative";
  if (relative && distances.length < 2) return;
  photo.known = distances.join("; ");
  if (!relative && !provenance.alignment) return; // the viewer has rescaled the scene
  try {
    await show(photo);
    showStatus("", null, relative ? "Depth is in metres." : "Depth is relative again.");
  } catch (error) {
    photo.known = "";
    showError(error);
  }
}

function describe(data) {
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
        showStatus("");
      }
    } catch (error) {
      depth.checked = true;
      showError(error);
    }
    picture.hidden = !normals.checked;
    picture.alt = normals.checked ? "Surface normals" : "";
    note.textContent = normals.checked ? "computed from depth and camera: right red, down green, away blue" : ofDepth;
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
        showStatus("");
      } catch (error) {
        showError(error);
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
      showStatus("Computing the IDRs.", 0.5);
      const path = `/results/${photo.token}`;
      const about = await (await request(`${path}/explain`, { method: "POST" })).json();
      const maps = await (await request(`${path}/maps`)).arrayBuffer();
      const mute = async (muted) => {
        const answer = await request(`${path}/mute`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ muted }),
        });
        showStatus(""); // hides an earlier error
        return answer.json();
      };
      await openExplorer({ root, scene, data, about, maps, mute, showError });
      look.hidden = true;
      if (focused) root.querySelector("#explorer").focus({ preventScroll: true });
      showStatus("", null, "The IDRs are shown.");
    } catch (error) {
      showError(error);
    }
    look.disabled = false;
  };
  look.addEventListener("click", open);
}
