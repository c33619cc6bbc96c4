import { Option } from "commander";
import type { Commands } from "../terminal/command.ts";
import { diagFormats } from "../terminal/output.ts";
import { instant, interval, limit, reason } from "./options.ts";

/** Declares `svc-admin fleet`, `hosts`, `identities` and `certificates`. */
export const declareHosts = (add: Commands["add"]): void => {
  const load = () => import("./hosts.ts");
  const fleet = () => import("./fleet.ts");
  add("fleet list [query...]", {
    summary: "List hosts, those that need somebody first, by the query language of /fleet",
    options: [limit("at most so many hosts"), new Option("--watch", "repeat until interrupted"), interval("10s")],
    load: async () => (await fleet()).listFleetAction,
  });
  add("fleet compare [query...]", {
    summary: "Compare the hosts of a query, which something changed, with similar ones before and after",
    options: [instant("--since <time>", "when the change began").makeOptionMandatory()],
    load: async () => (await fleet()).compareHostsAction,
  });
  add("fleet show <host>", { summary: "Show a host's health", load: async () => (await fleet()).showHostAction });
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
