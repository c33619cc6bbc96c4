import { revokeOperatorSession, whoami } from "#client/index.ts";
import { signInByBrowser } from "../sign-in/browser.ts";
import { signInByDevice } from "../sign-in/device.ts";
import { signInWorkload } from "../sign-in/workload.ts";
import { connectWithToken, fleetUrl } from "../terminal/connect.ts";
import { deleteSession, readSession, sessionPath, writeSession } from "../terminal/session-file.ts";
import type { Action } from "./command.ts";

/** `svc-admin login`: stores a token of an hour in a file that only the person may read. */
export const loginAction: Action<{ device?: boolean; workload?: string }> = async (
  terminal,
  { url: given, device, workload },
) => {
  const url = fleetUrl(terminal, given);
  const token =
    workload === undefined
      ? await (device === true ? signInByDevice : signInByBrowser)(terminal, url)
      : await signInWorkload(terminal, url, workload);
  const expiresAt = new Date(terminal.clock.now() + token.expires_in * 1000).toISOString();
  const { access_token, session_id } = token;
  writeSession(sessionPath(terminal.env), { url, access_token, session_id, expires_at: expiresAt });
  // Not `connect`, which prefers SVC_ADMIN_TOKEN_FILE: that may be another person's token.
  const { data } = await whoami<true>({ client: connectWithToken(terminal, url, access_token) });
  terminal.err.write(
    `Signed in to ${url} as ${data.email} (${data.scopes.join(", ")}) until ${expiresAt}\n`,
  );
};

/** `svc-admin logout`: forgets the token even if core cannot be reached; it expires within the hour. */
export const logoutAction: Action<object> = async (terminal) => {
  const path = sessionPath(terminal.env);
  const session = readSession(path);
  if (session === null) {
    terminal.err.write("You are not signed in.\n");
    return;
  }
  deleteSession(path);
  const { connectFleet } = await import("#client/connect.ts");
  const client = connectFleet({
    baseUrl: session.url,
    bearer: session.access_token,
    fetch: terminal.fetch,
  });
  // A workload has no session to end: its token expires by itself.
  if (session.session_id === null) {
    terminal.err.write("Signed out here; the token expires by itself.\n");
    return;
  }
  const { error } = await revokeOperatorSession({ client, path: { id: session.session_id } });
  // 401: the session had ended before.
  if (error === undefined || error.code === "unauthenticated") terminal.err.write("Signed out.\n");
  else
    terminal.err.write(
      `Signed out here; core did not end the session, which expires within the hour: ${error.detail}\n`,
    );
};
