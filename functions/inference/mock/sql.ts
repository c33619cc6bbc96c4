/** Returns a text as a literal of PostgreSQL, where `standard_conforming_strings` is on. A NUL, which no text there holds, is left out. */
export const textLiteral = (text: string): string => `'${text.replaceAll("\0", "").replaceAll("'", "''")}'`;

/**
 * Returns the statement for some columns of a few hosts. It chooses the hosts before it joins what the columns need, which takes a tenth of
 * the time in a fleet of 100,000 hosts.
 */
export const fewHosts = (
  columns: string,
  { where, order, limit }: { where: string; order: string; limit: number },
): string =>
  `select ${columns} from collectors where identity_id in (
      select identity_id from collectors where ${where} order by ${order} limit ${limit}) order by ${order}`;

/** Returns the condition that a host has a platform; without an architecture, any of this system. */
export const onPlatform = (platform: string | null): string => {
  if (platform === null) return "true";
  return platform.includes("/")
    ? `platform = ${textLiteral(platform)}`
    : `split_part(platform, '/', 1) = ${textLiteral(platform)}`;
};

/** A period that ends now: it starts at `since`, or `seconds` ago without one. */
export interface Period {
  since: string | null;
  seconds: number;
}

/** Returns the condition that `column` is in a period. */
export const inPeriod = (column: string, { since, seconds }: Period): string =>
  since === null
    ? `${column} > now() - make_interval(secs => ${seconds})`
    : `${column} >= ${textLiteral(since)}::timestamptz`;
