import type { Topic } from "./topic.ts";

const attention: Topic = {
  example: "Which hosts need attention, and why?",
  matches: ({ text }) => /attention|trouble|problem|unhealthy|wrong/.test(text),
  next: (_, tables) =>
    tables.length > 0
      ? null
      : ["select state, count(*) as hosts from collectors where state <> 'healthy' group by state order by hosts desc"],
  answer: (_, [states]) => {
    const rows = states?.rows ?? [];
    if (rows.length === 0) return "No host needs attention: every host is healthy.";
    const lines = rows.map(({ state, hosts }) => `${state}: ${hosts} (/fleet?state=${state})`);
    return ["Hosts that need attention, by state:", ...lines].join("\n");
  },
};

/** What the mock understands; the first that matches answers. */
export const topics: readonly Topic[] = [attention];
