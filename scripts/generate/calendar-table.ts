import { type Credential, credentials, seenBy } from "#proto/system/credentials.ts";
import { markdownTable } from "./markdown.ts";

/** Renders the table of what ends, how that is seen, and what changes it. */
export const renderCalendar = (): string => {
  const rows = Object.entries<Credential>(credentials).map(([name, credential]) => {
    const { what, change, docs } = credential;
    const seen = seenBy(name, credential).replace(/^core_.*/, "metric");
    const link = docs.replace(/^rotate\.md/, "");
    return [`\`${name}\`: ${what}`, seen, `[${change}](${link})`];
  });
  return markdownTable(["what ends", "seen 30 days before", "changed by"], rows);
};
