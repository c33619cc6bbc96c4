const names = [
  "schemas",
  "operations",
  "op",
  "path",
  "value",
  "id",
  "userName",
  "externalId",
  "active",
  "displayName",
  "name",
  "formatted",
  "givenName",
  "familyName",
  "emails",
  "type",
  "primary",
  "members",
];
const canonicalOf = new Map(names.map((name) => [name.toLowerCase(), name]));

/** Returns the canonical spelling of an attribute's name in any case; other names are returned unchanged. */
export const canonicalName = (name: string): string => canonicalOf.get(name.toLowerCase()) ?? name;

/** Returns a JSON value whose members have the canonical names: SCIM's names have no case (RFC 7643, 2.1). */
export const withCanonicalNames = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withCanonicalNames);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      canonicalName(name),
      withCanonicalNames(member),
    ]),
  );
};
