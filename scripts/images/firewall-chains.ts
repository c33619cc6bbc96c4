/**
 * The chains that netavark makes in iptables for the networks of containers. Version 1.4 keeps them, and the rules that lead to them, when
 * it removes the last network.
 */
import { readdir } from "node:fs/promises";
import { runToEnd } from "./run-to-end.ts";

/** Lists or changes rules: arguments of iptables, to what it prints. */
export type Iptables = (...args: string[]) => Promise<string>;

const tables = ["filter", "nat"] as const;

const systemIptables: Iptables = (...args) => runToEnd("iptables", ["--wait", "10", ...args]);

/** Returns netavark's chains, each as `<table> <chain>`; none where iptables is missing. */
export const listFirewallChains = async (
  iptables = systemIptables,
): Promise<ReadonlySet<string>> => {
  const found = new Set<string>();
  for (const table of tables)
    for (const [action, chain = ""] of await listRules(table, iptables))
      if (action === "-N" && chain.startsWith("NETAVARK")) found.add(`${table} ${chain}`);
  return found;
};

/** Removes netavark's chains that are not among `before`, and the rules that lead to them. Keeps them while a network of containers exists. */
export const removeFirewallChains = async (
  before: ReadonlySet<string>,
  { iptables = systemIptables, interfaces = () => readdir("/sys/class/net") } = {},
): Promise<void> => {
  if ((await interfaces()).some((name) => name.startsWith("podman"))) return;
  const made = [...(await listFirewallChains(iptables))].filter((chain) => !before.has(chain));
  for (const table of tables) {
    const chains = made.flatMap((each) =>
      each.startsWith(`${table} `) ? [each.slice(table.length + 1)] : [],
    );
    for (const [action, ...rule] of await listRules(table, iptables))
      if (action === "-A" && chains.includes(rule[rule.indexOf("-j") + 1] ?? ""))
        await iptables("-t", table, "-D", ...rule);
    for (const step of ["-F", "-X"])
      for (const chain of chains) await iptables("-t", table, step, chain);
  }
};

/** Returns the lines of `iptables -S`, each as its words. */
const listRules = async (table: string, iptables: Iptables): Promise<string[][]> => {
  const listed = await iptables("-t", table, "-S").catch(() => "");
  return listed
    .split("\n")
    .map((line) => Array.from(line.matchAll(/"([^"]*)"|\S+/g), ([word, quoted]) => quoted ?? word));
};
