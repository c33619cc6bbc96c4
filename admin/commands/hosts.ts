import {
  getCollectorIdentity,
  getHostDiag,
  type ListCertificatesResponse,
  type ListCollectorIdentitiesResponse,
  listCertificates,
  listCollectorIdentities,
  nudgeHost,
  readHostDiag,
  requestHostDiag,
  revokeCertificate,
  revokeCollectorIdentity,
} from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import type { Action } from "../terminal/command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { columnsOf, printList } from "../terminal/list-rows.ts";
import { type diagFormats, printAnswer } from "../terminal/output.ts";
import { requireId, resolveId } from "./names.ts";

type IdentityRow = ListCollectorIdentitiesResponse["items"][number];
type CertificateRow = ListCertificatesResponse["items"][number];

/** `svc-admin identities list`. */
export const listIdentitiesAction: Action<{
  search?: string;
  status?: "active" | "revoked";
}> = async (terminal, { search, status, ...options }) => {
  const columns = columnsOf<IdentityRow>(
    "id",
    "identity",
    "device_id",
    "platform",
    "enrolled_at",
    "revoked_at",
  );
  const query = withoutUndefined({ q: search, status });
  const client = connect(terminal, options);
  await printList(terminal, options, columns, listCollectorIdentities, { client, query });
};

/** `svc-admin identities show`. */
export const showIdentityAction: Action<object> = async (terminal, options, id = "") => {
  const client = connect(terminal, options);
  const path = { id: await resolveId(client, "host", id) };
  await printAnswer(terminal, options, getCollectorIdentity<true>({ client, path }));
};

/** `svc-admin identities revoke`: the host is rejected at once, and cannot enroll again. */
export const revokeIdentityAction: Action<{ reason?: string }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "host", name);
  const { data: identity } = await getCollectorIdentity<true>({ client, path: { id } });
  await confirm(
    terminal,
    options,
    `Host ${identity?.identity}: it will be rejected at once. This cannot be undone.`,
  );
  const body = withoutUndefined({ reason_code: options.reason });
  await printAnswer(
    terminal,
    options,
    revokeCollectorIdentity<true>({ client, path: { id }, body }),
  );
};

/** `svc-admin certificates list`: of one host. */
export const listHostCertificatesAction: Action<object> = async (terminal, options, host = "") => {
  const client = connect(terminal, options);
  const columns = columnsOf<CertificateRow>(
    "id",
    "serial_number",
    "status",
    "not_before",
    "not_after",
    "fingerprint_sha256",
  );
  const path = { id: await resolveId(client, "host", host) };
  await printList(terminal, options, columns, listCertificates, { client, path });
};

/** `svc-admin certificates revoke`. */
export const revokeOneCertificateAction: Action<{ reason?: string }> = async (
  terminal,
  options,
  given = "",
) => {
  const id = requireId(given, { one: "certificate", list: "certificates list HOST" });
  await confirm(
    terminal,
    options,
    `Certificate ${id}: whoever uses it will be rejected at once. This cannot be undone.`,
  );
  const body = withoutUndefined({ reason_code: options.reason });
  const client = connect(terminal, options);
  await printAnswer(terminal, options, revokeCertificate<true>({ client, path: { id }, body }));
};

const nudgeAction =
  (action: "renew_now" | "report_now"): Action<object> =>
  async (terminal, options, name = "") => {
    const client = connect(terminal, options);
    await nudgeHost<true>({
      client,
      path: { id: await resolveId(client, "host", name) },
      body: { action },
    });
    terminal.err.write(
      "Sent: a host that is connected follows at once, any other with its next heartbeat.\n",
    );
  };

/** `svc-admin hosts renew`. */
export const renewHostAction = nudgeAction("renew_now");

/** `svc-admin hosts report`. */
export const reportHostAction = nudgeAction("report_now");

const diagPollMs = 1_000;

/** `svc-admin hosts diag`: waits until the host has sent its diagnostics, or core says why there are none. */
export const diagHostAction: Action<{ format: (typeof diagFormats)[number] }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "host", name);
  let { data: diag } = await requestHostDiag<true>({ client, path: { id } });
  terminal.err.write(`Waiting for the host, until ${diag.answer_by} at most.\n`);
  const path = { id, diag: diag.id };
  while (diag.state === "pending") {
    await terminal.clock.sleep(diagPollMs, terminal.signal);
    diag = (await getHostDiag<true>({ client, path })).data;
  }
  await printAnswer(terminal, options, readHostDiag<true>({ client, path }));
};
