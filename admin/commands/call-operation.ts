import type { FleetClient } from "#client/connect.ts";
import type { pages } from "#client/pages.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { usageError } from "../terminal/exit-codes.ts";
import { type Column, printRecord, printRows } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "../terminal/parse-option.ts";
import { printList } from "../terminal/print-list.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile } from "../terminal/token-file.ts";
import {
  type Action,
  type Definition,
  type FieldOption,
  type GlobalOptions,
  type Operation,
  operations,
  type Subject,
} from "./command.ts";
import { isKind, kindOfGroup, resolveId } from "./names.ts";

/** A command that calls an operation. */
interface Call {
  operation: Operation;
  /** The command as it is declared: `watches show <watch>`. */
  command: string;
  options: readonly FieldOption[];
  definition: Definition<unknown, object>;
  /** The module of the command's file. */
  file: unknown;
}

interface Request {
  path: Record<string, unknown>;
  query: Record<string, unknown>;
  body: Record<string, unknown>;
}

type List = Parameters<typeof pages>[0];

/** Returns a function that sends requests of an operation. */
const sender =
  (client: FleetClient, { method, url, body }: Operation) =>
  async (request: Partial<Request>): Promise<{ data: object }> =>
    client.request({
      method: method as "GET",
      url,
      security: [{ scheme: "bearer", type: "http" }],
      ...(body && { headers: { "Content-Type": "application/json" } }),
      ...request,
    }) as Promise<{ data: object }>;

/** Returns the action of a command that calls an operation: it resolves names to ids, asks, sends the request and prints the response. */
export const callOperation =
  (call: Call): Action<object> =>
  async (terminal, options, ...given) => {
    const { definition, operation, file } = call;
    const own = options as unknown as Options;
    const client = connect(terminal, options);
    const args = argumentsOf(call.command, given);
    const { path, query, body } = await requestOf(call, client, own, args);
    const prepared = definition.prepare?.(file)(terminal, own as never, args as never);
    Object.assign(body, definition.body, await prepared);
    const subject = { id: String(path.id), given: given[0] ?? "" };
    if (definition.asks !== undefined) {
      const { reads } = definition;
      const record = reads ? (await sender(client, operations[reads])({ path })).data : {};
      await confirm(terminal, options, sentenceOf(definition.asks, { ...subject, record }));
    }
    const { columns: named = [] } = definition;
    const columns = typeof named === "function" ? named(file) : named;
    const sent = { path, query, ...(operation.body && { body }) };
    const send = sender(client, operation);
    if (operation.answers === "pages")
      await printList(terminal, own, columns, send as List, sent as never);
    else {
      const { data } = await send(sent);
      const code = await print(terminal, own, { call, columns, data });
      if (definition.says)
        terminal.err.write(`${sentenceOf(definition.says, { ...subject, record: data })}\n`);
      return code ?? undefined;
    }
  };

type Options = GlobalOptions & Readonly<Record<string, never>>;

const sentenceOf = <Record>(
  sentence: string | ((subject: Subject<Record>) => string),
  subject: Subject<Record>,
) => (typeof sentence === "string" ? sentence : sentence(subject));

/** Prints a response as the API describes it, unless the command has its own format. */
const print = (
  terminal: Terminal,
  options: Options,
  {
    call: { definition, operation, file },
    columns,
    data,
  }: { call: Call; columns: readonly Column<never>[]; data: object },
) => {
  if (definition.print) return definition.print(file)(terminal, options as never, data as never);
  if (operation.answers === "items")
    return printRows(terminal, options, columns, (data as { items: never[] }).items);
  return operation.answers === "record" ? printRecord(terminal, options, data) : undefined;
};

/** Returns the arguments by their names, and joins the words of a variadic one. */
const argumentsOf = (command: string, given: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    [...command.matchAll(/[<[]([a-z]+)(\.*)/g)].map(([, name = "", ellipsis], index) => [
      name,
      ellipsis ? given.slice(index).join(" ") : (given[index] ?? ""),
    ]),
  );

const requestOf = async (
  { operation, command, options }: Call,
  client: FleetClient,
  own: Options,
  args: Readonly<Record<string, string>>,
): Promise<Request> => {
  const request: Request = { path: {}, query: {}, body: {} };
  const set = (field: string, value: unknown) => {
    const part = (["path", "query", "body"] as const).find((each) =>
      Object.hasOwn(operation[each] ?? {}, field),
    );
    if (part) request[part][field] = part === "query" && value === true ? "true" : value;
  };
  const [group = ""] = command.split(" ");
  for (const [name, value] of Object.entries(args)) {
    const kind = name === "id" ? kindOfGroup(group) : name;
    if (isKind(kind)) set(idParameterOf(operation), await resolveId(client, kind, value));
    else set(name === "query" ? "filter" : name, value);
  }
  for (const { option, takes, field } of options) {
    const value: unknown = own[option.attributeName()];
    const isOfPages = field === "limit" && operation.answers === "pages";
    if (field && value !== undefined && !isOfPages)
      set(field, await toApiValue(client, takes, value));
  }
  return request;
};

/** Returns the name of the path parameter that has the record's id. */
const idParameterOf = ({ path = {} }: Operation): string => Object.keys(path)[0] ?? "";

/** Returns the value of an option as the API accepts it. */
const toApiValue = (client: FleetClient, takes: string, value: unknown): unknown => {
  if (isKind(takes)) return resolveId(client, takes, value as string);
  if (takes === "time") return textOfInstant(value as Instant);
  return takes === "file" ? readYaml(value as string) : value;
};

/** Reads a member of the body from a file. Core checks it. */
const readYaml = async (path: string): Promise<unknown> => {
  const text = readTextFile(path);
  const { parse } = await import("../terminal/yaml.ts");
  try {
    return parse(text);
  } catch (cause) {
    throw usageError(`${path} is not valid YAML`, { cause });
  }
};
