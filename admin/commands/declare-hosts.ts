import { Option } from "commander";
import type { CommandsOf } from "../terminal/command.ts";
import { diagFormats } from "../terminal/output.ts";
import { declareFleet } from "./declare-fleet.ts";
import { reason } from "./options.ts";

/** Declares `svc-admin fleet`, `hosts`, `identities` and `certificates`. */
export const declareHosts = (commandsOf: CommandsOf): void => {
  declareFleet(commandsOf);
  const add = commandsOf(() => import("./hosts.ts"));
  add(
    "hosts diag <host>",
    "Fetch the diagnostics of a host from the host itself: what svc-collector diag prints there",
    (file) => file.diagHostAction,
    [],
    diagFormats,
  );
  add(
    "hosts renew <host>",
    "Have a host renew its certificate now",
    (file) => file.renewHostAction,
  );
  add("hosts report <host>", "Have a host report its health now", (file) => file.reportHostAction);
  add("identities list", "List enrolled hosts", (file) => file.listIdentitiesAction, [
    new Option("--search <text>"),
    new Option("--status <status>").choices(["active", "revoked"]),
  ]);
  add("identities show <host>", "Show an enrolled host", (file) => file.showIdentityAction);
  add(
    "identities revoke <host>",
    "Revoke a host: it is rejected at once",
    (file) => file.revokeIdentityAction,
    [reason()],
  );
  add(
    "certificates list <host>",
    "List the certificates of a host",
    (file) => file.listHostCertificatesAction,
  );
  add(
    "certificates revoke <id>",
    "Revoke a certificate",
    (file) => file.revokeOneCertificateAction,
    [reason()],
  );
};
