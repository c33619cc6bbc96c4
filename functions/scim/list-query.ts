import {
  attributeOf,
  parseScimFilter,
  type ScimFilter,
  ScimSyntaxError,
} from "../../proto/scim/filter.ts";
import { scimUrn } from "../../proto/scim/resources.ts";
import { Problem } from "../problems.ts";
import type { Projection, ResourceView } from "./views.ts";

const countDefault = 100;
/** The largest page; a request for more gets this many (RFC 7644, 3.4.2.4). */
export const countMax = 200;
const startMax = 1_000_000_000;

/** The part of a list that a request names. */
export interface ListQuery {
  filter: ScimFilter | null;
  offset: number;
  limit: number;
}

/** Parses `filter`, `startIndex` and `count`. Throws `scim_filter_invalid`, `scim_value_invalid`. */
export const listQueryOf = (query: URLSearchParams): ListQuery => {
  const start = Math.min(Math.max(integerOf(query, "startIndex") ?? 1, 1), startMax);
  const count = Math.min(Math.max(integerOf(query, "count") ?? countDefault, 0), countMax);
  const filter = query.get("filter");
  return {
    filter: filter === null || filter.trim() === "" ? null : filterOf(filter),
    offset: start - 1,
    limit: count,
  };
};

/** Returns a list as a SCIM message. */
export const listMessage = (
  total: number,
  { offset }: Pick<ListQuery, "offset">,
  resources: readonly ResourceView[],
) => ({
  schemas: [scimUrn.list],
  totalResults: total,
  startIndex: offset + 1,
  itemsPerPage: resources.length,
  Resources: resources,
});

/** Parses `attributes` and `excludedAttributes`. Throws `scim_value_invalid`. */
export const projectionOf = (query: URLSearchParams): Projection => ({
  attributes: query.has("attributes") ? namesOf(query, "attributes") : null,
  excluded: namesOf(query, "excludedAttributes"),
});

const namesOf = (query: URLSearchParams, parameter: string): string[] => {
  const names = (query.get(parameter) ?? "").split(",").map((name) => name.trim());
  return names.filter(Boolean).map((text) => {
    try {
      const { name, sub } = attributeOf(text);
      return sub === null ? name : `${name}.${sub}`;
    } catch (cause) {
      if (!(cause instanceof ScimSyntaxError)) throw cause;
      throw new Problem("scim_value_invalid", {
        detail: `${parameter} must be a list of attributes`,
        cause,
      });
    }
  });
};

const integerOf = (query: URLSearchParams, name: string): number | undefined => {
  const text = query.get(name);
  if (text === null) return undefined;
  if (!/^-?\d{1,15}$/.test(text))
    throw new Problem("scim_value_invalid", { detail: `${name} must be an integer` });
  return Number(text);
};

const filterOf = (text: string): ScimFilter => {
  try {
    return parseScimFilter(text);
  } catch (cause) {
    if (!(cause instanceof ScimSyntaxError)) throw cause;
    throw new Problem("scim_filter_invalid", {
      detail: `The filter is malformed: ${cause.message}`,
      cause,
    });
  }
};
