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
  const words = `${incomplete === 0 ? "none" : formatCount(incomplete)} with an incomplete hour`;
  return unknown === 0
    ? `${formatCountOf(hosts, "host")}: ${words}`
    : `${formatCountOf(hosts, "host")}: up to ${formatCount(unknown)} not accounted for in an hour; ${words}`;
};
