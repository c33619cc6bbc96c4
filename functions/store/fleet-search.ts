import { type SQL, sql } from "drizzle-orm";
import { type FleetRules, oneOf } from "./fleet-rows.ts";
import { arrayLiteral, substring } from "./query-parts.ts";

/**
 * Returns the predicate of a free text: a substring of a name, a version or a platform; or an id, a serial number or a fingerprint, as
 * people paste them from other tools.
 */
export const textFound = (text: string, { versions, platforms }: FleetRules): SQL => {
  const wanted = text.toLowerCase();
  const found = (words: readonly string[]) => words.filter((word) => word.toLowerCase().includes(wanted));
  const parts = [sql`search like lower(${substring(text)})`];
  for (const [column, words] of [
    [sql`version`, found(versions)],
    [sql`platform`, found(platforms)],
  ] as const)
    if (words.length > 0) parts.push(oneOf(column, words));
  const id = idIn(wanted);
  if (id !== undefined) parts.push(sql`identity_id = ${id}::uuid`, ownsCertificate(sql`id = ${id}::uuid`));
  const digits = digitsIn(wanted);
  if (digits !== undefined)
    parts.push(
      ownsCertificate(
        digits.length === 64
          ? sql`fingerprint_sha256 = decode(${digits}, 'hex')`
          : sql`serial_number = any(${arrayLiteral(serialsOf(digits))}::text[])`,
      ),
    );
  return sql`(${sql.join(parts, sql` or `)})`;
};

/** One lookup for the statement, not for each row. */
const ownsCertificate = (which: SQL): SQL =>
  sql`identity_id = any(array(select identity_id from certificate where ${which}))`;

/** Returns the id in a text: a UUID in lower case, perhaps in braces or as a URN. */
const idIn = (text: string): string | undefined =>
  /^(?:urn:uuid:|\{)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}?$/.exec(text)?.[1];

/** Returns the hexadecimal digits of a serial number or a SHA-256 fingerprint, as `openssl x509` and browsers print them. */
const digitsIn = (text: string): string | undefined => {
  const [, digits = ""] =
    /^(?:serial(?: number)?[=:] ?|sha-?256[=:] ?|0x)?([0-9a-f]+(?:[: ][0-9a-f]+)*)$/.exec(text) ?? [];
  const joined = digits.replace(/[: ]/g, "");
  return /^(?:[0-9a-f]{6,42}|[0-9a-f]{64})$/.test(joined) ? joined : undefined;
};

/** Signers store a serial number with an even number of digits or without leading zeros. */
const serialsOf = (digits: string): string[] => {
  const number = digits.replace(/^0+(?=.)/, "");
  return [...new Set([digits, number, `0${number}`, `00${number}`])];
};
