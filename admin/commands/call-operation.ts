import type { FleetClient } from "#client/connect.ts";
import type { Page } from "#client/pages.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes, usageError } from "../terminal/exit-codes.ts";
import { printRecord, printRows } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "../terminal/parse-option.ts";
import { printList } from "../terminal/print-list.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile } from "../terminal/token-file.ts";
import {
  type Action,
  type AnyDefinition,
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
  definition: AnyDefinition;
  /** The module of the command's file. */
  file: unknown;
}

interface Request {
  path: Record<string, unknown>;
  query: Record<string, unknown>;
  body: Record<string, unknown>;
}

/** Returns a function that sends requests of an operation. */
const sender =
  <Answer extends object>(client: FleetClient, { method, url, body }: Operation) =>
  async (request: Partial<Request>): Promise<{ data: Answer }> =>
    client.request({
      method: method as "GET",
      url,
      security: [{ scheme: "bearer", type: "http" }],
      ...(body && { headers: { "Content-Type": "application/json" } }),
      ...request,
    }) as Promise<{ data: Answer }>;

/** Returns the action of a command that calls an operation: it resolves names to ids, asks, sends the request and prints the response. */
export const callOperation =
  (call: Call): Action<object> =>
  async (terminal, options, ...given) => {
    const { definition, operation, file } = call;
    const client = connect(terminal, options);
    const args = argumentsOf(call.command, given);
    const { path, query, body } = await requestOf(call, client, options, args);
    const prepared = await definition.prepare?.(file)(terminal, options, args);
    const request = {
      path,
      query,
      ...(operation.body && { body: { ...body, ...definition.body, ...prepared } }),
    };
    const subject = { id: String(path.id), given: given[0] ?? "" };
    if (definition.asks) {
      const record = await readRecord(definition, client, path);
      await confirm(terminal, options, sentenceOf(definition.asks, { ...subject, record }));
    }
    if (operation.answers === "pages") {
      const list = sender<Page<never>>(client, operation);
      await printList(terminal, options, columnsOf(call), list, request);
      return exitCodes.ok;
    }
    const { data } = await sender(client, operation)(request);
    const code = await print(terminal, options, call, data);
    if (definition.says)
      terminal.err.write(`${sentenceOf(definition.says, { ...subject, record: data })}\n`);
    return code ?? exitCodes.ok;
  };

/** Reads the record that the command's question is about. */
const readRecord = async (
  { reads }: AnyDefinition,
  client: FleetClient,
  path: Request["path"],
): Promise<object> => (reads ? (await sender(client, operations[reads])({ path })).data : {});

const sentenceOf = <Record>(
  sentence: string | ((subject: Subject<Record>) => string),
  subject: Subject<Record>,
) => (typeof sentence === "string" ? sentence : sentence(subject));

const columnsOf = ({ definition: { columns = [] }, file }: Call) =>
  typeof columns === "function" ? columns(file) : columns;

/** Prints a response as the API describes it, unless the command has its own format. */
const print = (terminal: Terminal, options: GlobalOptions, call: Call, data: object) => {
  const { definition, operation, file } = call;
  if (definition.print) return definition.print(file)(terminal, options, data);
  if (operation.answers === "items")
    return printRows(terminal, options, columnsOf(call), (data as { items: never[] }).items);
  return operation.answers === "record" ? printRecord(terminal, options, data) : undefined;
};

/** Returns the arguments by their names, and joins the words of a variadic one. */
const argumentsOf = (command: string, given: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    [...command.matchAll(/[<[]([a-z-]+)(\.*)/g)].map(([, name = "", ellipsis], index) => [
      name,
      ellipsis ? given.slice(index).join(" ") : (given[index] ?? ""),
    ]),
  );

/** Returns the request of a command's arguments and options. Only `prepare` may read an argument that is no field. */
const requestOf = async (
  { operation, command, options, definition }: Call,
  client: FleetClient,
  given: GlobalOptions,
  args: Readonly<Record<string, string>>,
): Promise<Request> => {
  const request: Request = { path: {}, query: {}, body: {} };
  const set = (field: string, value: unknown) => {
    const part = (["path", "query", "body"] as const).find((each) =>
      Object.hasOwn(operation[each] ?? {}, field),
    );
    if (part) request[part][field] = part === "query" && value === true ? "true" : value;
    else if (!definition.prepare) throw new Error(`${operation.url} has no field ${field}`);
  };
  const [group = ""] = command.split(" ");
  for (const [name, value] of Object.entries(args)) {
    const kind = name === "id" ? kindOfGroup(group) : name;
    if (isKind(kind)) set(idParameterOf(operation), await resolveId(client, kind, value));
    else set(fieldOfArgument[name] ?? name, value);
  }
  const values = given as unknown as Readonly<Record<string, unknown>>;
  for (const { option, takes, field } of options) {
    const value = values[option.attributeName()];
    const isOfPages = field === "limit" && operation.answers === "pages";
    if (field && value !== undefined && !isOfPages)
      set(field, await toApiValue(client, takes, value));
  }
  return request;
};

/** Fields that the API names differently from the argument. */
const fieldOfArgument: Readonly<Record<string, string>> = { query: "filter" };

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
