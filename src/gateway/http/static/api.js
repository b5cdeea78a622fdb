// Talks to the server: JSON in, JSON out. A refusal becomes an ApiError whose message is a sentence for the person.

export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }

  /** Whether the same call may well go through a little later. */
  get passing() {
    return this.status === 0 || this.code === "closing" || this.status === 502 || this.status === 503;
  }
}

const NO_ANSWER = "The gateway does not answer. It may be restarting; what you wrote is kept here.";

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(NO_ANSWER, 0, "no_answer");
  }
  if (response.status === 401) window.dispatchEvent(new Event("signed-out"));
  if (!response.ok) throw await readProblem(response);
  return response.status === 204 ? null : response.json();
}

async function readProblem(response) {
  const fallback = `The server answered with an error (${response.status}).`;
  const body = await response.json().catch(() => null);
  return new ApiError(body?.error?.message || fallback, response.status, body?.error?.code || "");
}

export const get = (path) => ask(path, { method: "GET" });

function withBody(method) {
  return (path, body = {}) =>
    ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

export const post = withBody("POST");
export const put = withBody("PUT");
export const patch = withBody("PATCH");
export const del = withBody("DELETE");

/** Sends a file and tells how far it is (0 to 1); `signal` ends it. */
export function upload(file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/web/upload?name=${encodeURIComponent(file.name || "pasted")}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => onProgress(event.lengthComputable ? event.loaded / event.total : 0);
    request.onerror = () => reject(new ApiError("The file did not arrive: the connection was lost.", 0, "no_answer"));
    request.onabort = () => reject(new ApiError("The upload was taken back.", 0, "aborted"));
    request.onload = () => {
      const body = request.response;
      if (request.status < 300) resolve(body);
      else reject(new ApiError(body?.error?.message || "The file was not taken.", request.status, body?.error?.code));
    };
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
