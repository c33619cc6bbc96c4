import { Option } from "commander";
import type { Commands } from "../terminal/command.ts";
import { diagFormats } from "../terminal/output.ts";
import { declareFleet } from "./declare-fleet.ts";
import { reason } from "./options.ts";

/** Declares `svc-admin fleet`, `hosts`, `identities` and `certificates`. */
export const declareHosts = (add: Commands["add"]): void => {
  const load = () => import("./hosts.ts");
  declareFleet(add);
  add("hosts diag <host>", {
    summary: "Fetch the diagnostics of a host from the host itself: what svc-collector diag prints there",
    formats: diagFormats,
    load: async () => (await load()).diagHostAction,
  });
  add("hosts renew <host>", {
    summary: "Have a host renew its certificate now",
    load: async () => (await load()).renewHostAction,
  });
  add("hosts report <host>", {
    summary: "Have a host report its health now",
    load: async () => (await load()).reportHostAction,
  });
  add("identities list", {
    summary: "List enrolled hosts",
    options: [new Option("--search <text>"), new Option("--status <status>").choices(["active", "revoked"])],
    load: async () => (await load()).listIdentitiesAction,
  });
  add("identities show <host>", {
    summary: "Show an enrolled host",
    load: async () => (await load()).showIdentityAction,
  });
  add("identities revoke <host>", {
    summary: "Revoke a host: it is rejected at once",
    options: [reason()],
    load: async () => (await load()).revokeIdentityAction,
  });
  add("certificates list <host>", {
    summary: "List the certificates of a host",
    load: async () => (await load()).listHostCertificatesAction,
  });
  add("certificates revoke <id>", {
    summary: "Revoke a certificate",
    options: [reason()],
    load: async () => (await load()).revokeOneCertificateAction,
  });
};
