import { expect, it } from "vitest";
import { listFirewallChains, removeFirewallChains } from "./firewall-chains.ts";

/** What a run of Compose leaves in the tables. */
const left: Record<string, string> = {
  filter: `-P FORWARD ACCEPT
-N NETAVARK_FORWARD
-N OTHER
-A FORWARD -m comment --comment "netavark firewall plugin rules" -j NETAVARK_FORWARD
-A FORWARD -j OTHER
`,
  nat: `-P OUTPUT ACCEPT
-N NETAVARK-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT
`,
};

const createIptables = () => {
  const changes: string[][] = [];
  const iptables = async (...[, table = "", ...args]: string[]) => {
    if (args[0] === "-S") return left[table] ?? "";
    changes.push([table, ...args]);
    return "";
  };
  return { iptables, changes };
};
const interfaces = async () => ["lo", "eth0"];

it("removes the chains that netavark left, with the rules that lead to them, and nothing else", async () => {
  const { iptables, changes } = createIptables();
  await removeFirewallChains(new Set(), { iptables, interfaces });
  const comment = "netavark firewall plugin rules";
  expect(changes).toEqual([
    ["filter", "-D", "FORWARD", "-m", "comment", "--comment", comment, "-j", "NETAVARK_FORWARD"],
    ["filter", "-F", "NETAVARK_FORWARD"],
    ["filter", "-X", "NETAVARK_FORWARD"],
    [
      "nat",
      "-D",
      "OUTPUT",
      "-m",
      "addrtype",
      "--dst-type",
      "LOCAL",
      "-j",
      "NETAVARK-HOSTPORT-DNAT",
    ],
    ["nat", "-F", "NETAVARK-HOSTPORT-DNAT"],
    ["nat", "-X", "NETAVARK-HOSTPORT-DNAT"],
  ]);
});

it("keeps chains that were there before, and all of them while a network of containers exists", async () => {
  const { iptables, changes } = createIptables();
  await removeFirewallChains(await listFirewallChains(iptables), { iptables, interfaces });
  await removeFirewallChains(new Set(), { iptables, interfaces: async () => ["lo", "podman1"] });
  expect(changes).toEqual([]);
});
