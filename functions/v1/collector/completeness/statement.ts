import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { readStatement } from "#functions/domain/completeness/export-statement.ts";
import { downloadRoute } from "#functions/http/download.ts";
import { scope } from "#functions/http/resource.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import { hourMs } from "#kit/clock.ts";
import { Identifier, QueryFlag, QueryInteger } from "#proto/values.ts";

/** `GET /v1/collector/completeness/statements/{hour}`: the signed statement of an hour, for `svc-server verify-completeness`; audited. */
export const readStatementRoute = (
  core: Pick<Core, "config" | "db" | "reports" | "clock" | "entropy" | "codec">,
) =>
  downloadRoute(core, {
    path: "/v1/collector/completeness/statements/:hour",
    operationId: "readStatement",
    summary: "The signed statement of the hour that contains a time, with the proofs of its lines",
    guard: scope(core, "audit"),
    params: v.object({ hour: QueryTime }),
    query: v.strictObject({
      /** An identity or a device id: only its lines, with its accounts. */
      host: v.optional(Identifier(2048)),
      accounts: QueryFlag,
      /** The size of the log that a witness kept. */
      since: v.optional(QueryInteger(0, Number.MAX_SAFE_INTEGER)),
    }),
    file: {
      type: "text/plain; charset=utf-8",
      extension: "txt",
      description: "The file that docs/completeness-proof.md describes",
    },
    problems: ["not_found"],
    open: async ({ params, query: { host, accounts, since } }, by) => {
      const at = params.hour(core.clock.now());
      const hour = new Date(at - (at % hourMs));
      const withAccounts = accounts || host !== undefined;
      const texts = await readStatement(core, { hour, host, since, withAccounts }, by);
      return { name: "statement", asked: { host }, at: hour, texts };
    },
  });
