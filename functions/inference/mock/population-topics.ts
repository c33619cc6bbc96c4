import { at, counted, duringPeriod, fleetPath, lines, more, numberIn, shown } from "./answer-words.ts";
import type { MockQuestion } from "./question.ts";
import { inPeriod, onPlatform } from "./sql.ts";
import { listed, none, once, periodOf, type Topic } from "./topic.ts";

/** Which hosts enrolled lately. */
export const enrollments: Topic = {
  example: "Which hosts enrolled in the last 24 hours?",
  intent: "I look for the newest hosts.",
  matches: ({ text }) =>
    /\benroll(?:ments?|ed (?:in|since|to|this|last|yesterday|recently))|newe(?:st|r) hosts?|new hosts?|joined/.test(
      text,
    ),
  next: once((question) => {
    const condition = `${inPeriod("enrolled_at", periodOf(question))} and ${onPlatform(question.platform)}`;
    return [
      `select count(*) filter (where ${condition}) as enrolled, count(*) as fleet from collectors`,
      `select device_id, state, platform, version, policy, enrolled_at from collectors
        where ${condition} order by enrolled_at desc, device_id limit ${listed(question)}`,
    ];
  }),
  answer: (question, [[totals] = none, hosts = []]) => {
    const period = duringPeriod(periodOf(question));
    const place = question.platform === null ? "" : ` on ${question.platform}`;
    return lines(
      `${counted(totals?.enrolled, "host")}${place} of ${numberIn(totals?.fleet).toLocaleString("en-US")} enrolled ${period}${hosts.length === 0 ? "." : ", the newest first:"}`,
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}, ${shown(row.platform)}, ${shown(row.version)}): ${at(row.enrolled_at)}, policy ${shown(row.policy)}`,
      ),
      more(totals?.enrolled, hosts.length),
    );
  },
};

const propertyOf = ({ text }: MockQuestion): "policy" | "platform" => (/polic/.test(text) ? "policy" : "platform");

/** How many hosts each platform or enrollment policy has. */
export const groups: Topic = {
  example: "How many hosts are on each platform?",
  intent: "I count the hosts.",
  matches: ({ text, platform }) =>
    platform !== null || /platform|polic|operating system|architecture|\bos\b/.test(text),
  next: once((question) => {
    const property = propertyOf(question);
    return [
      `select ${property} as value, count(*) as hosts, count(*) filter (where state not in ('healthy', 'enrolling')) as troubled
        from collectors where ${onPlatform(question.platform)} group by ${property} order by hosts desc, value`,
    ];
  }),
  answer: (question, [rows = []]) => {
    const property = propertyOf(question);
    const total = rows.reduce((sum, row) => sum + numberIn(row.hosts), 0);
    const place = question.platform === null ? "" : ` on ${question.platform}`;
    if (total === 0) return `No host${place} is enrolled.`;
    return lines(
      `${counted(total, "host")}${place}. By ${property}:`,
      rows
        .slice(0, 20)
        .map(
          (row) =>
            `- ${shown(row.value)}: ${counted(row.hosts, "host")}, ${numberIn(row.troubled).toLocaleString("en-US")} of them in need of attention${property === "platform" && typeof row.value === "string" ? ` (${fleetPath({ platform: [row.value] })})` : ""}`,
        ),
      more(rows.length, 20),
    );
  },
};
