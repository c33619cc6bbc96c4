import {
  type ListOperatorSessionsResponse,
  listOperatorSessions,
  revokeOperatorSession,
  whoami,
} from "../../client/index.ts";
import { signInByBrowser } from "../sign-in/browser.ts";
import { signInByDevice } from "../sign-in/device.ts";
import { signInWorkload } from "../sign-in/workload.ts";
import type { Action } from "../terminal/command.ts";
import { connect, fleetUrl } from "../terminal/connect.ts";
import { printList } from "../terminal/list-rows.ts";
import { type Column, printAnswer } from "../terminal/output.ts";
import { deleteSession, readSession, sessionPath, writeSession } from "../terminal/session-file.ts";
import { requireId } from "./names.ts";

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
  const { data } = await whoami<true>({ client: connect(terminal, { url }) });
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
  const { connectFleet } = await import("../../client/connect.ts");
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

/** `svc-admin whoami`. */
export const showWhoamiAction: Action<object> = async (terminal, options) => {
  await printAnswer(terminal, options, whoami<true>({ client: connect(terminal, options) }));
};

/** `svc-admin sessions list`. */
export const showSessionsAction: Action<{ everyone?: boolean }> = async (
  terminal,
  { everyone, ...options },
) => {
  const client = connect(terminal, options);
  const query = everyone === true ? { everyone: "true" as const } : {};
  const columns: Column<ListOperatorSessionsResponse["items"][number]>[] = [
    { title: "id", value: ({ id }) => id },
    { title: "person", value: ({ email }) => email },
    { title: "program", value: ({ client_name }) => client_name },
    { title: "address", value: ({ remote_addr }) => remote_addr },
    { title: "state", value: ({ state, current }) => (current ? `${state} (this one)` : state) },
    { title: "expires", value: ({ expires_at }) => expires_at },
  ];
  await printList(terminal, options, columns, listOperatorSessions, { client, query });
};

/** `svc-admin sessions revoke`. */
export const revokeOneSessionAction: Action<object> = async (terminal, options, given = "") => {
  const id = requireId(given, { one: "session", list: "sessions list" });
  await revokeOperatorSession<true>({ client: connect(terminal, options), path: { id } });
  terminal.err.write(`Session ${id} is revoked.\n`);
};
