import { formatCount, formatCountOf } from "../format/format.ts";

/** The counts of a report, and its hours with the number of hosts in each state. */
interface CountedHours {
  hosts: number;
  hosts_listed: number;
  hours: readonly { hosts: Readonly<Record<string, number>> }[];
}

/**
 * Describes how many hosts of a report have an incomplete hour. Hosts without data come first, as many as in the hour with the most: core cannot
 * count their incomplete hours.
 */
export const incompleteText = ({
  hosts,
  hosts_listed: incomplete,
  hours,
}: CountedHours): string => {
  const unknown = Math.max(0, ...hours.map((hour) => hour.hosts.not_accounted ?? 0));
  const words = `${hostsWith(incomplete, hosts, "incomplete hours")}.`;
  return unknown === 0
    ? words
    : `Up to ${hostsWith(unknown, hosts, "hours without a report")}, which core cannot judge. ${words}`;
};

/** Says how many of all hosts have some hours: `2 of 4 hosts have incomplete hours`. */
export const hostsWith = (count: number, all: number, hours: string): string =>
  count === 0
    ? `No host has ${hours}`
    : `${formatCount(count)} of ${formatCountOf(all, "host")} ${count === 1 ? "has" : "have"} ${hours}`;

/** Says how many hosts are not on the first page of the list: those of further pages, and those without such hours. */
export const restText = (
  { hosts, hosts_listed: listed }: Pick<CountedHours, "hosts" | "hosts_listed">,
  { shown, what = "incomplete hours" }: { shown: number; what?: string | undefined },
): string => {
  const others = formatCountOf(Math.max(0, hosts - listed), "host");
  const none = `${others} ${hosts - listed === 1 ? "has" : "have"} no ${what}.`;
  return shown < listed
    ? `These are the worst ${formatCount(shown)} of ${formatCount(listed)}. ${none}`
    : `${shown === 0 ? "" : "The other "}${none}`;
};
