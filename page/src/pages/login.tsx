// The login: by the code that `det ui` passes after "#", or by the token that the user pastes.
import { useEffect, useState } from "preact/hooks";
import { ApiError, hasSession, login } from "../api.ts";
import { ErrorNotice } from "../ui/basics.tsx";

/** Removes the one-time code from the address, so that neither the history nor a later link contains it. */
export function takeCode(): string | null {
  const code = location.hash.slice(1);
  if (!code) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return code;
}

export function Login({ code, onDone }: { code: string | null; onDone: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(code !== null);
  const enter = (secret: { code: string } | { token: string }): void => {
    setBusy(true);
    login(secret).then(onDone, (problem: unknown) => {
      if ("code" in secret && hasSession()) return onDone(); // Opened again, or too late: the session of this browser may do.
      setBusy(false);
      setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem), null));
    });
  };
  useEffect(() => {
    if (code) enter({ code });
  }, []);
  return (
    <main class="login stack">
      <h1>Determined</h1>
      {error && <ErrorNotice error={error} />}
      {busy ? <div class="loading" role="status"><span>Signing in …</span></div> : (
        <form class="panel" onSubmit={(event) => {
          event.preventDefault();
          enter({ token: token.trim() });
        }}>
          <div class="panel-body stack">
            <p>The page shows the runs of whoever started <code>det ui</code>. Start it again and it opens the browser signed in, or paste the token of the running one, which <code>det ui</code> prints the place of.</p>
            <label class="stack">Token<input type="password" autocomplete="off" value={token} required autofocus onInput={(event) => setToken(event.currentTarget.value)} /></label>
            <div class="row"><button class="main" type="submit">Sign in</button></div>
          </div>
        </form>
      )}
    </main>
  );
}
