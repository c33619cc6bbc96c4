import * as v from "valibot";
import { AssignmentPage } from "../../../../proto/fleet-health/config-report.ts";
import { DateFromTimestamp } from "../../../../proto/management/text.ts";
import { Id } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { browseAssignments } from "../../../domain/config/config-reports.ts";
import { scope } from "../../../http/guards.ts";
import { createList, IdParams, listFields } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";
import type { AssignmentFilter } from "../../../store/config/hosts.ts";
import { assignmentView } from "./config.ts";

/** The query fields that select assignments. `current=true`: not replaced or removed; `since` and `until`: when they were made. */
export const assignmentFilterFields = {
  current: v.optional(v.picklist(["true", "false"], "must be true or false")),
  assigned_by: v.optional(Id),
  since: v.optional(DateFromTimestamp),
  until: v.optional(DateFromTimestamp),
};

/** Returns the filter of parsed query fields. */
export const assignmentFilterOf = ({
  current,
  assigned_by: assignedBy,
  since,
  until,
}: v.InferOutput<v.ObjectSchema<typeof assignmentFilterFields, undefined>>): AssignmentFilter => ({
  current: current && current === "true",
  assignedBy,
  since,
  until,
});

/** `GET /v1/collector/configs/{id}/assignments`: to which hosts a config was assigned, newest first, and what each has made of it. */
export const listAssignmentsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "config-assignments");
  return route({
    method: "GET",
    path: "/v1/collector/configs/:id/assignments",
    operationId: "listConfigAssignments",
    summary: "The assignments of a config to hosts, newest first, and what each host has made of it",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject({ ...assignmentFilterFields, ...listFields }),
    replies: { 200: { description: "A page of assignments", schema: AssignmentPage } },
    problems: ["not_found"],
    handle: ({ params, query }) => {
      const filter = { ...assignmentFilterOf(query), configId: params.id };
      return list(query, (page) => browseAssignments(core, filter, page), assignmentView);
    },
  });
};
