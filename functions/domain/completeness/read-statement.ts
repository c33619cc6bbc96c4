import type { Core } from "#functions/core.ts";
import { findHostNamed } from "#functions/store/completeness/report.ts";
import { hourText } from "#proto/completeness/statement-line.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import { exportStatement, type StatementOrder } from "./export-statement.ts";

/** Selects the parts of a statement that an operator may read: never blocks, which are telemetry. `host` may be a device id. */
type ReadOrder = Omit<StatementOrder, "onBlock">;

/** Yields the file of an hour's statement; audited before the first part. Throws 404 `not_found` as `exportStatement` does. */
export const readStatement = async (
  core: Pick<Core, "db" | "reports" | "clock" | "entropy" | "codec">,
  order: ReadOrder,
  by: By,
): Promise<AsyncGenerator<string, void, void>> => {
  const { hour, withAccounts } = order;
  const host = order.host === undefined ? undefined : await findHostNamed(core.reports, order.host);
  const parts = exportStatement({ db: core.reports, codec: core.codec }, { ...order, host });
  // Throws without a statement.
  const first = await parts.next();
  await core.db.transaction((tx) =>
    recordOperatorAction(tx, core, by, {
      action: "completeness.read",
      target: { type: "completeness_statement", id: hourText(hour.getTime()) },
      details: { host, accounts: withAccounts },
    }),
  );
  return (async function* () {
    if (!first.done) yield first.value;
    yield* parts;
  })();
};
