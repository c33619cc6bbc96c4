import { expect, it } from "vitest";
import { parseVariables } from "#kit/env.ts";
import { workloadVariables } from "./workload-config.ts";

const read = (contents: string) => {
  const { faults, values } = parseVariables(
    { SVC_WORKLOAD_ISSUERS: contents },
    { variables: workloadVariables, readFile: () => "" },
  );
  const { issuers = [] } = values?.SVC_WORKLOAD_ISSUERS?.reveal() ?? {};
  return { issuers, fault: faults[0]?.message };
};
const entry = (subjects: string, more = "") =>
  `issuers: [{ issuer: "https://idp.example.com", audience: core, subjects: ${subjects}${more} }]`;

it("names issuers, audiences, keys and patterns", () => {
  expect(
    read(
      entry(
        "[{ pattern: 'a:*:b', scopes: [read, audit] }]",
        ", jwks_uri: 'https://keys.example.com/'",
      ),
    ),
  ).toEqual({
    issuers: [
      {
        issuer: "https://idp.example.com",
        audience: "core",
        jwksUri: "https://keys.example.com/",
        subjects: [{ pattern: "a:*:b", claims: {}, scopes: ["read", "audit"] }],
      },
    ],
    fault: undefined,
  });
  const { issuers } = read("issuers: [{ issuer: 'https://cluster.example.com', audience: core }]");
  expect(issuers[0]?.subjects).toEqual([]);
});

it.each([
  [
    entry("[{ pattern: '*:*', scopes: [read] }]"),
    "issuers.0.subjects.0.pattern must hold one * at most",
  ],
  [entry("[{ pattern: 'a*', scopes: [read] }]"), "may hold * in place of a whole segment"],
  [entry("[{ pattern: a, scopes: [] }]"), "scopes must name a scope"],
  [entry("[{ pattern: a, scopes: [root] }]"), "must be read, audit or admin"],
  [entry("[]"), "issuers.0.subjects must not be empty"],
  [entry("[{ pattern: a, scopes: [read], more: 1 }]"), "issuers.0.subjects.0.more is not known"],
  [
    "issuers: [{ issuer: 'http://idp.example.com', audience: a, subjects: [] }]",
    "issuer must be https://",
  ],
  ["issuers: [{ audience: a }]", "issuers.0.issuer is required"],
  ["issuers: [", "line 1 is not valid YAML"],
  ["# nothing", "the file must be a mapping"],
])("rejects %j with the place of the fault", (contents, message) => {
  expect(read(contents).fault).toContain(message);
});

it.each([
  ["https://token.actions.githubusercontent.com", "repository_owner_id", "repository_id"],
  ["https://token.actions.githubusercontent.com/acme", "repository_owner_id", "repository_id"],
  ["https://github.acme.example/_services/token", "repository_owner_id", "repository_id"],
  ["https://gitlab.com", "namespace_id", "project_id"],
])("requires an id of rules for %s, whose names others can take", (issuer, owner, project) => {
  const rule = (claims: string) =>
    read(
      `issuers: [{ issuer: "${issuer}", audience: a, subjects: [{ pattern: p, ${claims} scopes: [read] }] }]`,
    );
  for (const claims of ["", "claims: {},", "claims: { repository_owner: acme },"])
    expect(rule(claims).fault).toBe(
      `issuers.0.subjects.0 must name ${owner} or ${project} in claims: names can pass to another account, ids cannot`,
    );
  expect(rule(`claims: { ${owner}: 12 },`).issuers[0]?.subjects[0]?.claims).toEqual({
    [owner]: "12",
  });
  expect(rule(`claims: { ${project}: "34" },`).fault).toBeUndefined();
  expect(rule(`claims: { ${project}: [34] },`).fault).toContain("must be text or an integer");
});

it("rejects an issuer that is named twice", () => {
  const one =
    "{ issuer: 'https://a.example.com', audience: a, subjects: [{ pattern: a, scopes: [read] }] }";
  expect(read(`issuers: [${one}, ${one}]`).fault).toContain("names one issuer twice");
});
