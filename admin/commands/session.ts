import { connectFleet, revokeOperatorSession, whoami } from "#client/index.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { signInByBrowser } from "../sign-in/browser.ts";
import type { Token } from "../sign-in/token-endpoint.ts";
import { signInByDevice, signInWorkload } from "../sign-in/token-endpoint.ts";
import { connectWithToken, fleetUrl } from "../terminal/connect.ts";
import { deleteSession, readSession, sessionPath, writeSession } from "../terminal/session-file.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action } from "./command.ts";

interface LoginOptions {
  device?: boolean;
  workload?: string;
}

const signIn = (
  terminal: Terminal,
  url: string,
  { device = false, workload }: LoginOptions,
): Promise<Token> => {
  if (workload !== undefined) return signInWorkload(terminal, url, workload);
  return device ? signInByDevice(terminal, url) : signInByBrowser(terminal, url);
};

/** `svc-admin login`: stores a token of an hour in a file that only the person may read. */
export const loginAction: Action<LoginOptions> = async (terminal, { url: given, ...options }) => {
  const url = fleetUrl(terminal, given);
  const token = await signIn(terminal, url, options);
  const expiresAt = new Date(terminal.clock.now() + token.expires_in * 1000).toISOString();
  const { access_token, session_id } = token;
  writeSession(sessionPath(terminal.env), { url, access_token, session_id, expires_at: expiresAt });
  // Not `connect`, which prefers SVC_ADMIN_TOKEN_FILE: that may be another person's token.
  const { data } = await whoami<true>({ client: connectWithToken(terminal, url, access_token) });
  terminal.err.write(
    `Signed in to ${url} as ${data.email} (${data.scopes.join(", ")}) until ${expiresAt}\n`,
  );
};

/** `svc-admin logout`: deletes the token even if core is unreachable; it expires within the hour. */
export const logoutAction: Action<object> = async (terminal) => {
  const path = sessionPath(terminal.env);
  const session = readSession(path);
  if (session === null) {
    terminal.err.write("You are not signed in.\n");
    return;
  }
  deleteSession(path);
  // A workload has no session to end: its token expires by itself.
  if (session.session_id === null) {
    terminal.err.write("Signed out here; the token expires by itself.\n");
    return;
  }
  const client = connectFleet({
    baseUrl: session.url,
    bearer: session.access_token,
    fetch: terminal.fetch,
  });
  const { error } = await revokeOperatorSession({ client, path: { id: session.session_id } });
  // 401: the session had ended before.
  const isEnded =
    error === undefined || error.code === ("unauthenticated" satisfies CoreProblemCode);
  terminal.err.write(
    isEnded
      ? "Signed out.\n"
      : `Signed out here; core did not end the session, which expires within the hour: ${error.detail}\n`,
  );
};
