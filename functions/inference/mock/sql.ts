/** Returns a text as a literal of PostgreSQL, where `standard_conforming_strings` is on. A NUL, which no text there holds, is left out. */
export const textLiteral = (text: string): string => `'${text.replaceAll("\0", "").replaceAll("'", "''")}'`;

/** Returns the condition that a host has a platform; without an architecture, any of this system. */
export const onPlatform = (platform: string | null): string => {
  if (platform === null) return "true";
  return platform.includes("/")
    ? `platform = ${textLiteral(platform)}`
    : `split_part(platform, '/', 1) = ${textLiteral(platform)}`;
};

/** Returns the condition that `column` is not before the start of a period: `since`, or the last `seconds`. */
export const inPeriod = (column: string, { since, seconds }: { since: string | null; seconds: number }): string =>
  since === null
    ? `${column} > now() - make_interval(secs => ${seconds})`
    : `${column} >= ${textLiteral(since)}::timestamptz`;
