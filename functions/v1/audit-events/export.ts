import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  type AuditExport,
  exportAuditEvents,
  type NamedAuditEvent,
} from "#functions/domain/audit/browse.ts";
import { type CsvColumn, csvReply, csvTexts, csvType } from "#functions/http/csv.ts";
import { createDownloads, downloadName } from "#functions/http/download.ts";
import { scope } from "#functions/http/guards.ts";
import { type Route, route } from "#functions/http/route.ts";
import { auditEventView, recordNamesView } from "./event.ts";
import { auditFilterFields, auditQueryOf } from "./query.ts";

type Needs = Pick<Core, "config" | "db" | "clock" | "entropy">;

const targetOf = ({ names, targetId }: NamedAuditEvent) => names.find(({ id }) => id === targetId);

const columns: readonly CsvColumn<NamedAuditEvent>[] = [
  ["seq", ({ link }) => link?.seq ?? null],
  ["occurred_at", ({ occurredAt }) => occurredAt.toISOString()],
  ["action", ({ action }) => action],
  ["outcome", ({ outcome }) => outcome],
  ["actor_type", ({ actorType }) => actorType],
  ["actor", ({ actorDisplay }) => actorDisplay],
  ["actor_id", ({ actorId }) => actorId],
  ["target_type", ({ targetType }) => targetType],
  ["target", (event) => targetOf(event)?.name ?? event.targetId],
  ["target_detail", (event) => targetOf(event)?.detail ?? null],
  ["target_id", ({ targetId }) => targetId],
  ["reason_code", ({ reasonCode }) => reasonCode],
  ["reason", ({ reason }) => reason],
  ["remote_addr", ({ remoteAddr }) => remoteAddr],
  ["request_id", ({ requestId }) => requestId],
  ["details", ({ details }) => JSON.stringify(details)],
  ["id", ({ id }) => id],
  ["hash", ({ link }) => link?.hash.toHex() ?? null],
];

const linesOf = async function* (batches: AsyncIterable<readonly NamedAuditEvent[]>) {
  for await (const events of batches) {
    yield events
      .map(
        (event) =>
          `${JSON.stringify({ ...auditEventView(event), names: recordNamesView([event]) })}\n`,
      )
      .join("");
  }
};

const exportRoute = (
  core: Needs,
  {
    format,
    operationId,
    summary,
  }: { format: AuditExport["format"]; operationId: string; summary: string },
): Route => {
  const download = createDownloads(core);
  return route({
    method: "GET",
    path: `/v1/audit-events/export.${format}`,
    operationId,
    summary,
    guard: scope(core, "audit"),
    query: v.strictObject(auditFilterFields),
    problems: ["too_many_exports"],
    replies: {
      200:
        format === "csv"
          ? csvReply
          : {
              description: "One event per line, as the list returns it, with its names",
              type: "text/x-ndjson",
            },
    },
    handle: ({ query: asked, caller, origin }) =>
      download(caller.userId, async () => {
        const batches = await exportAuditEvents(core, {
          query: auditQueryOf(asked, core.clock.now()),
          format,
          operator: caller,
          origin,
          asked,
        });
        return {
          // Text, as CSV is: the generated client returns text/* as a string, and would parse application/jsonl as one value.
          type: format === "csv" ? csvType : "text/x-ndjson; charset=utf-8",
          fileName: downloadName("audit", asked, new Date(core.clock.now()), format),
          texts: format === "csv" ? csvTexts(columns, batches) : linesOf(batches),
        };
      }),
  });
};

/** `GET /v1/audit-events/export.csv`: streams every event of a filter, newest first; audited. */
export const auditCsvRoute = (core: Needs) =>
  exportRoute(core, {
    format: "csv",
    operationId: "exportAuditEvents",
    summary: "All audit events under the list's filters as CSV, newest first",
  });

/** `GET /v1/audit-events/export.jsonl`: the same as JSON lines, with the hashes of the chain. */
export const auditLinesRoute = (core: Needs) =>
  exportRoute(core, {
    format: "jsonl",
    operationId: "exportAuditEventLines",
    summary: "All audit events under the list's filters as JSON lines, newest first",
  });
