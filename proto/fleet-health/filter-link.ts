import * as v from "valibot";
import { type FleetFilter, filterFromQuery, fleetFilterFields } from "./filter.ts";

/** Parses the filter of an address. Parts that the report would reject are ignored, so that a mangled link still opens. */
export const filterFromParams = (params: URLSearchParams): FleetFilter => {
  const parts = Object.entries(fleetFilterFields).map(([parameter, schema]) => {
    const values = params.getAll(parameter);
    const parsed = v.safeParse(schema, values.length === 1 ? values[0] : values.length === 0 ? undefined : values);
    return [parameter, parsed.success ? parsed.output : undefined];
  });
  return filterFromQuery(Object.fromEntries(parts));
};
