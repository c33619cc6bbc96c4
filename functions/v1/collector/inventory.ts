import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import {
  type ChangedInventory,
  compareWithFleet,
  inventoryEtag,
  putInventory,
} from "#functions/domain/inventory/inventory.ts";
import { CsvFault, csvRecords, type ReadRecord } from "#functions/http/read-csv.ts";
import { listFields, resource, scope, severityField } from "#functions/http/resource.ts";
import { fieldErrors, route } from "#functions/http/route.ts";
import { Problem } from "#functions/problems.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { FieldError } from "#kit/problem.ts";
import { inventoryStatuses } from "#proto/fleet-health/vocabulary.ts";
import {
  Inventory,
  InventoryChange,
  InventoryHost,
  InventoryReport,
  inventoryBytesMax,
  inventoryChangesMax,
  inventoryHostsMax,
} from "#proto/inventory/inventory.ts";
import { isLabelKey } from "#proto/labels.ts";
import { Identifier, QueryFlag } from "#proto/values.ts";

/** The route that compares the inventory with the fleet, by name. */
export const inventoryReports = (core: ReadCore) =>
  resource(core, "/v1/collector/inventory", ({ get, cursors }) => ({
    listInventory: get(
      "",
      "The hosts of the inventory and of the fleet by name, or by severity of the status, each with its status, and how many have which",
      {
        query: Query,
        returns: ["A page of hosts", InventoryReport],
        handle: async ({ query }) => {
          const { status, limit, sort, q: text = "" } = query;
          const list = `inventory${sort ? ` by ${sort}` : ""} ${status ?? ""} ${text}`;
          const [after = null] = await cursors.open(list, query.cursor);
          const statuses = status === undefined ? inventoryStatuses : [status];
          const now = core.clock.now();
          const wanted = { statuses, text };
          const { inventory, counts, page } = await compareWithFleet(core, wanted, {
            after,
            limit,
            sort,
          });
          return {
            generated_at: rfc3339(now),
            etag: inventory ? inventoryEtag(inventory) : null,
            updated_at: inventory?.updatedAt.toISOString() ?? null,
            counts,
            items: page.rows,
            next_cursor: await cursors.seal(list, page.next === null ? null : [page.next]),
          };
        },
      },
    ),
  }));

const Query = v.strictObject({
  status: v.optional(
    v.picklist(inventoryStatuses, `must be one of ${inventoryStatuses.join(", ")}`),
  ),
  /** A part of the name, in any case. */
  q: v.optional(Identifier(256)),
  ...severityField,
  ...listFields,
});

/** `PUT /v1/collector/inventory`: replaces the whole list of expected hosts. */
export const putInventoryRoute = (core: ConfiguredCore) =>
  route({
    method: "PUT",
    path: "/v1/collector/inventory",
    operationId: "putInventory",
    summary:
      "Replace the inventory of expected hosts by JSON or CSV; If-Match takes its ETag, dry_run=true only compares",
    guard: scope(core, "admin"),
    query: v.strictObject({ allow_empty: QueryFlag, dry_run: QueryFlag }),
    body: Inventory,
    textBody: { type: "text/csv", read: readInventoryCsv },
    bodyBytesMax: inventoryBytesMax,
    bodyExample: { hosts: [{ name: "web-17", owner: "shop", labels: { env: "prod" } }] },
    replies: {
      200: {
        description: "The hosts that it adds, changes and removes, with an `ETag`",
        schema: InventoryChange,
      },
    },
    problems: ["inventory_invalid", "inventory_empty", "inventory_changed"],
    handle: async ({ query, body, ifMatch, ...by }) => {
      const inventory = {
        hosts: body.hosts,
        ifMatch,
        allowEmpty: query.allow_empty,
        isDryRun: query.dry_run,
      };
      const changed = await putInventory(core, by, inventory);
      const etag = inventoryEtag(changed);
      return { status: 200, body: changeView(changed, etag), headers: { ETag: etag } };
    },
  });

const changeView = (
  { updatedAt, hosts, changes }: ChangedInventory,
  etag: string,
): InventoryChange => {
  const kinds = ["added", "changed", "removed"] as const;
  const named = kinds.flatMap((change) => changes[change].names.map((name) => ({ name, change })));
  return {
    etag,
    updated_at: updatedAt.toISOString(),
    hosts,
    added: changes.added.hosts,
    changed: changes.changed.hosts,
    removed: changes.removed.hosts,
    changes: named.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, inventoryChangesMax),
  };
};

const errorsMax = 32;
const labelPrefix = "label.";

/**
 * Parses the inventory of a CSV file, whose first line names the columns: `name`, and optionally `owner` and `label.KEY`. An empty cell is
 * no owner or no label. Throws 422 `inventory_invalid` with the line of each fault, and never quotes a value.
 */
const readInventoryCsv = (text: string): { hosts: InventoryHost[] } => {
  try {
    return { hosts: hostsOf(csvRecords(text)) };
  } catch (error) {
    if (error instanceof CsvFault)
      throw invalid([{ path: "", line: error.line, message: error.message }]);
    throw error;
  }
};

const hostsOf = (records: Generator<ReadRecord, void, void>): InventoryHost[] => {
  const first = records.next();
  if (first.done) throw invalid([{ path: "", line: 1, message: "must name the columns" }]);
  const columns = columnsOf(first.value);
  const lineOf = new Map<string, number>();
  const hosts: InventoryHost[] = [];
  const errors: FieldError[] = [];
  for (const record of records) {
    if (errors.length >= errorsMax) break;
    const { line } = record;
    if (hosts.length === inventoryHostsMax)
      throw invalid([{ path: "", line, message: `must have at most ${inventoryHostsMax} hosts` }]);
    const host = parseHost(columns, record);
    if ("faults" in host) {
      errors.push(...host.faults);
      continue;
    }
    const before = lineOf.get(host.name);
    if (before === undefined) lineOf.set(host.name, line);
    else errors.push({ path: "name", line, message: `is the name of line ${before} too` });
    hosts.push(host);
  }
  if (errors.length > 0) throw invalid(errors.slice(0, errorsMax));
  return hosts;
};

const parseHost = (
  columns: readonly string[],
  { line, cells }: ReadRecord,
): InventoryHost | { faults: FieldError[] } => {
  if (cells.length !== columns.length) {
    const message = `has ${cells.length} cells under ${columns.length} columns`;
    return { faults: [{ path: "", line, message }] };
  }
  const result = v.safeParse(InventoryHost, hostOf(columns, cells), { abortPipeEarly: true });
  return result.success
    ? result.output
    : { faults: fieldErrors(result.issues).map((error) => ({ ...error, line })) };
};

const columnsOf = ({ line, cells }: ReadRecord): string[] => {
  const names = cells.map((cell) => cell.trim());
  const errors = names.flatMap((name, index): FieldError[] => {
    const isKnown =
      name === "name" ||
      name === "owner" ||
      (name.startsWith(labelPrefix) && isLabelKey(name.slice(labelPrefix.length)));
    const column = index + 1;
    if (!isKnown) return [{ path: "", line, column, message: "must be name, owner or label.KEY" }];
    return names.indexOf(name) < index
      ? [{ path: "", line, column, message: "is there twice" }]
      : [];
  });
  if (!names.includes("name"))
    errors.push({ path: "", line, message: "must have the column name" });
  if (errors.length > 0) throw invalid(errors.slice(0, errorsMax));
  return names;
};

const hostOf = (columns: readonly string[], cells: readonly string[]): Record<string, unknown> => {
  const labels: Record<string, string> = {};
  const host: Record<string, unknown> = { labels };
  for (const [index, column] of columns.entries()) {
    const cell = (cells[index] ?? "").trim();
    if (column.startsWith(labelPrefix)) {
      if (cell !== "") labels[column.slice(labelPrefix.length)] = cell;
    } else host[column] = column === "owner" && cell === "" ? null : cell;
  }
  return host;
};

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem("inventory_invalid", { errors });
