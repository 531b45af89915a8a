// Requests to the server: sessions, errors, and the answers that an exported page carries in itself.

export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly hint: string | null) {
    super(message);
  }
}

interface Exported {
  address: string;
  created: number;
  answers: { [path: string]: unknown };
  /** The names of trials, for a chart without a page, which has no rows of trials. */
  names?: { [trial: string]: string };
}

const SESSION = "det-session";

/** Returns the document of an exported page, or null where a server answers. */
function readExported(): Exported | null {
  const element = typeof document === "undefined" ? null : document.getElementById("det-export");
  return element ? (JSON.parse(element.textContent ?? "{}") as Exported) : null;
}

export const exported: Exported | null = readExported();

/** Returns a path with its query parameters in alphabetical order: the key of an answer in an exported page. */
export function canonical(path: string): string {
  const [place = "", query = ""] = path.split("?", 2);
  const params = new URLSearchParams(query);
  params.sort();
  const text = params.toString();
  return text ? `${place}?${text}` : place;
}

/** Builds a path from its parameters, without those that are missing. */
export function withQuery(path: string, params: Record<string, string | number | boolean | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    query.set(name, value === true ? "1" : value === false ? "0" : String(value));
  }
  return canonical(`${path}?${query}`);
}

/** The paths that the present view has requested, whose answers an export has to contain. */
export const asked = new Set<string>();
/** The maximum number of requests that the server accepts for one export. */
const MOST_EXPORTED = 1000;

/** Whether a view requests a path when it is opened, and not only when it polls or after a click. */
function isOfView(path: string): boolean {
  const [place = "", query = ""] = path.split("?", 2);
  const params = new URLSearchParams(query);
  if (place === "/api/changes" || (place === "/api/logs" && (params.has("after") || params.has("before")))) return false;
  return !(place.endsWith("/moment") && params.has("x"));
}

/** Records a path that the view requests. */
export function note(path: string): void {
  if (isOfView(path)) asked.add(path);
}

/** Forgets the previous request of a part of the view that now makes another request to the same route. */
export function supersede(before: string | null, path: string): void {
  if (before !== null && before !== path && before.split("?")[0] === path.split("?")[0]) asked.delete(before);
}

/** Returns the paths that an export of the view contains; of too many charts, those that were requested last. */
export function exportedPaths(): string[] {
  const isChart = (path: string): boolean => path.startsWith("/api/curves?") || path.includes("/profile?");
  const rest = [...asked].filter((path) => !isChart(path)).slice(-MOST_EXPORTED);
  const charts = [...asked].filter(isChart);
  return [...rest, ...charts.slice(Math.max(0, charts.length - (MOST_EXPORTED - rest.length)))];
}

let onSessionLost: () => void = () => undefined;

export function whenSessionLost(callback: () => void): void {
  onSessionLost = callback;
}

export function hasSession(): boolean {
  return exported !== null || readSession() !== null;
}

function readSession(): string | null {
  try {
    return localStorage.getItem(SESSION);
  } catch {
    return null; // Storage is switched off: the user logs in again for each page.
  }
}

export async function login(secret: { code: string } | { token: string }): Promise<void> {
  const answer = await send<{ session: string }>("/login", "POST", { body: secret });
  localStorage.setItem(SESSION, answer.session);
}

export function forgetSession(): void {
  localStorage.removeItem(SESSION);
}

function fromExport<T>(path: string): T {
  const wanted = canonical(path);
  const answers = exported!.answers;
  if (wanted in answers) return answers[wanted] as T;
  const fallback = Object.keys(answers).find((known) => sameCurves(known, wanted));
  if (fallback) return answers[fallback] as T;
  throw new ApiError(404, "This is not part of the exported page.", "Open it with `det ui`, where the store is.");
}

/** Whether two requests for curves differ only in their range, which an exported page cannot refine. */
function sameCurves(known: string, wanted: string): boolean {
  if (!wanted.startsWith("/api/curves?") || !known.startsWith("/api/curves?")) return false;
  const [one, other] = [known, wanted].map((path) => {
    const params = new URLSearchParams(path.split("?", 2)[1]);
    for (const name of ["from", "to", "points"]) params.delete(name);
    return params.toString();
  });
  return one === other;
}

/** Seconds that a read may take; the first statistics of a large store take some. */
const PATIENCE = 60;

/** Makes a request. With `seconds` it ends then: a connection that died, as after a suspend, may never say so itself. */
async function send<T>(path: string, method: string, { body, signal, seconds }: { body?: unknown; signal?: AbortSignal; seconds?: number } = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const session = readSession();
  if (session) headers["X-Det-Session"] = session;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limits = [...(signal ? [signal] : []), ...(seconds ? [AbortSignal.timeout(seconds * 1000)] : [])];
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, {
      method, headers, body: body === undefined ? null : JSON.stringify(body), signal: limits.length ? AbortSignal.any(limits) : null,
      credentials: "same-origin", cache: "no-store",
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error instanceof DOMException && error.name === "TimeoutError") {
      throw new ApiError(408, `The server has not answered for ${seconds} s.`, "It may be busy, or the connection to it was lost (as of `ssh -L`).");
    }
    throw new ApiError(0, "The server does not answer.", "Is `det ui` still running in its terminal?");
  }
  if (response.ok) return JSON.parse(text) as T;
  if (response.status === 401 && path !== "/login") onSessionLost();
  throw errorOf(response, text);
}

function errorOf(response: Response, text: string): ApiError {
  try {
    const said = JSON.parse(text) as { error?: string; hint?: string | null };
    if (said.error) return new ApiError(response.status, said.error, said.hint ?? null);
  } catch {
    // Not an error of our server: only its status is known.
  }
  return new ApiError(response.status, `The server answered ${response.status} ${response.statusText}.`, null);
}

export async function get<T>(path: string, signal?: AbortSignal, seconds = PATIENCE): Promise<T> {
  if (exported) return fromExport<T>(path);
  note(path);
  return send<T>(path, "GET", { seconds, ...(signal ? { signal } : {}) });
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  if (exported) throw new ApiError(0, "An exported page cannot change anything.", null);
  return send<T>(path, "POST", { body });
}

/** Makes a request, a POST request if there is a body, and returns the answer as a file, with its name. */
export async function getFile(path: string, body?: unknown): Promise<{ blob: Blob; name: string }> {
  const headers: Record<string, string> = body === undefined ? {} : { "Content-Type": "application/json" };
  const session = readSession();
  if (session) headers["X-Det-Session"] = session;
  const response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? null : JSON.stringify(body), credentials: "same-origin" });
  if (!response.ok) throw errorOf(response, await response.text());
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "view.html";
  return { blob: await response.blob(), name };
}
