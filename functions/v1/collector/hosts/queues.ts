import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { closeHostQueue, listHostQueues } from "#functions/domain/completeness/queues.ts";
import { scope } from "#functions/http/guards.ts";
import { IdParams, reasonBody } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { HostQueues, HostQueueView } from "#proto/completeness/report.ts";
import { Id } from "#proto/values.ts";

const QueueParams = v.object({
  id: Id,
  queue: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, "must be 32 hex digits")),
});

const queueView = viewOf(HostQueueView);

/** `GET /v1/collector/hosts/{id}/queues`: the queues of a host that bind its hours, or did. */
export const listHostQueuesRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/hosts/:id/queues",
    operationId: "listHostQueues",
    summary: "The queues of a host that bind its hours, and how others ended, the newest first",
    guard: scope(core, "audit"),
    params: IdParams,
    replies: { 200: { description: "The queues", schema: HostQueues } },
    problems: ["not_found"],
    handle: async ({ params }) => ({
      status: 200,
      body: { items: (await listHostQueues(core, params.id)).map(queueView) },
    }),
  });

/** `POST /v1/collector/hosts/{id}/queues/{queue}/close`: a queue will not speak again. */
export const closeHostQueueRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/hosts/:id/queues/:queue/close",
    operationId: "closeHostQueue",
    summary:
      "Close a queue that will not speak again: its open hours stay incomplete, later ones do without it",
    guard: scope(core, "admin"),
    params: QueueParams,
    ...reasonBody("disk_lost"),
    replies: { 200: { description: "The queues of the host", schema: HostQueues } },
    problems: ["not_found", "conflict"],
    handle: async ({ params, body, caller, origin }) => {
      const change = {
        identityId: params.id,
        queueId: params.queue,
        reasonCode: body.reason_code ?? null,
      };
      return {
        status: 200,
        body: { items: (await closeHostQueue(core, caller, change, origin)).map(queueView) },
      };
    },
  });
