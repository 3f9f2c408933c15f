// Asking the server: one answer, or a stream of them. A server that went away is waited for.

const token = new URLSearchParams(location.search).get("token");
const headers = { "content-type": "application/json", ...(token ? { "x-wherefrom-token": token } : {}) };
let lost = false;
const listeners = [];

export class Refused extends Error {}  // the server understood, and says why not

export const onConnection = listener => listeners.push(listener);

function connection(there) {
  if (lost === !there) return;
  lost = !there;
  for (const listener of listeners) listener(there);
  if (lost) waitForServer();
}

async function waitForServer() {
  while (lost) {
    await new Promise(resolve => setTimeout(resolve, 700));
    try {
      const found = await fetch("/api/state", { headers });
      if (found.ok) connection(true);
    } catch { /* still away */ }
  }
}

async function send(path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, body === undefined ? { headers, signal }
      : { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name !== "AbortError") connection(false);
    throw error;
  }
  connection(true);
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(told.error ?? `The server answered ${answer.status}.`);
  }
  return answer;
}

export const get = async path => (await send(path)).json();

export const post = async (path, body, signal) => (await send(path, body, signal)).json();

// Calls `take` with every line of a stream. An error in the stream is thrown.
export async function stream(path, body, signal, take) {
  const answer = await send(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name !== "AbortError") connection(false);
      throw error;
    }
    if (part.done) return;
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const found = JSON.parse(line);
      if (found.error) throw new Refused(found.error);
      take(found);
    }
  }
}
