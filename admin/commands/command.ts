import { Option } from "commander";
import type * as api from "#client/index.ts";
import type { AdminExitCode } from "../terminal/exit-codes.ts";
import { type Column, type OutputOptions, usualFormats } from "../terminal/output.ts";
import { parserOf, severalOf } from "../terminal/parse-option.ts";
import type { Terminal } from "../terminal/terminal.ts";
import operationsJson from "./operations.json" with { type: "json" };

/** The options that every command takes. */
export interface GlobalOptions extends OutputOptions {
  url?: string;
  yes: boolean;
}

/** The end of a command: its exit code, 0 by default. */
type Ended = Promise<AdminExitCode | undefined> | Promise<void>;

/** A command's work: its arguments and options, parsed. */
export type Action<Options> = (
  terminal: Terminal,
  options: Omit<GlobalOptions, keyof Options> & Options,
  ...args: string[]
) => Ended;

/** A field of a request, as the API describes it; a text has no type. */
interface Field {
  type?: string;
  choices?: readonly string[];
  required?: boolean;
}

/** An operation of the API (admin/commands/operations.json, generated): the fields of its path, query and body, and the form of its response. */
export interface Operation {
  method: string;
  url: string;
  path?: Readonly<Record<string, Field>>;
  query?: Readonly<Record<string, Field>>;
  body?: Readonly<Record<string, Field>>;
  /** `pages`, `items`, `record`, `text` or `nothing`. */
  answers: string;
}

/** The name of an operation of the API. */
type OperationName = keyof typeof operationsJson;

/** The answer of an operation. */
export type AnswerOf<Name extends OperationName> =
  Awaited<ReturnType<(typeof api)[Name]>> extends infer Result
    ? Result extends { data: infer Data }
      ? NonNullable<Data>
      : never
    : never;

type RowOf<Data> = Data extends { items: readonly (infer Row extends object)[] } ? Row : never;

/** An option: its description, the request field that it sets unless that has its name, and settings of commander. */
interface OptionDefinition {
  says?: string;
  field?: string;
  default?: string;
  conflicts?: string | string[];
  choices?: readonly string[];
  required?: boolean;
  parse?: (text: string, before?: never) => unknown;
}

/** The options of a command by their flags, in the order of `--help`. The API's field decides which values an option accepts. */
type OptionDefinitions = Readonly<Record<string, string | OptionDefinition>>;

/** The subject of a question or a sentence: the id and the name that the command was given, and the record before it changes. */
export interface Subject<Record> {
  id: string;
  given: string;
  record: Record;
}

type Sentence<Record> = string | ((subject: Subject<Record>) => string);

type ColumnsOf<Row> = readonly Column<Row>[];

/** The columns of a list. */
export type Columns<Name extends OperationName> = ColumnsOf<RowOf<AnswerOf<Name>>>;

/** The words of a command, and its differences from the operation that it calls. `never` accepts functions of any options. */
export interface Definition<Module, Data, Options = never, Args = never> {
  options?: OptionDefinitions;
  /** The columns of a table; a function of the file's module if they need imports that should not load at start. */
  columns?: ColumnsOf<RowOf<Data>> | ((file: Module) => ColumnsOf<RowOf<Data>>);
  /** Members of the body that no option gives. */
  body?: object;
  /** Returns further members of the body, or throws, before anything is sent. */
  prepare?: (
    file: Module,
  ) => (terminal: Terminal, options: Options, args: Args) => object | Promise<object>;
  /** The operation that reads the record for the question. */
  reads?: OperationName;
  /** The question before the command runs: it names the records that change. */
  asks?: Sentence<Data>;
  /** Prints the answer instead of a table or record. */
  print?: (file: Module) => (terminal: Terminal, options: Options, answer: Data) => Ended;
  /** The sentence that the command prints afterwards, about the answer. */
  says?: Sentence<Data>;
}

/** A definition whose module, options and answer `calls` has checked. */
export type AnyDefinition = Definition<
  unknown,
  object,
  GlobalOptions,
  Readonly<Record<string, string>>
>;

/** A command as commander takes it. Its work is loaded when it runs, so that `--help` is fast. */
export interface DeclaredCommand {
  path: string;
  summary: string;
  options: readonly Option[];
  formats: readonly string[];
  load(): Promise<Action<object>>;
}

/** The operations of the API that an operator may call. */
export const operations: Readonly<Record<OperationName, Operation>> = operationsJson;

/** Returns functions that declare a file's commands: `calls` those that call one operation of the API, `runs` those with an action of their own. */
export const commandsFrom = <Module = object>(loadFile?: () => Promise<Module>) => ({
  /** A command that sends its arguments and options to an operation, and prints the answer. */
  calls: <Name extends OperationName>(
    path: string,
    summary: string,
    name: Name,
    definition: Definition<Module, AnswerOf<Name>> = {},
  ): DeclaredCommand => {
    const operation = operations[name];
    const options = optionsOf(definition.options ?? {}, operation);
    return {
      path,
      summary,
      options: options.map(({ option }) => option),
      formats: usualFormats,
      load: async () => {
        const [{ callOperation }, file] = await Promise.all([
          import("./call-operation.ts"),
          loadFile?.(),
        ]);
        return callOperation({
          operation,
          command: path,
          options,
          definition: definition as unknown as AnyDefinition,
          file,
        });
      },
    };
  },
  /** A command with work of its own. */
  runs: <Options>(
    path: string,
    summary: string,
    workOf: (file: Module) => Action<Options>,
    options: OptionDefinitions = {},
    { calls, formats = usualFormats }: { calls?: OperationName; formats?: readonly string[] } = {},
  ): DeclaredCommand => ({
    path,
    summary,
    options: optionsOf(options, calls && operations[calls]).map(({ option }) => option),
    formats,
    load: async () => workOf((await loadFile?.()) as Module) as unknown as Action<object>,
  }),
});

/** An option, and the field of the request that it gives. */
export interface FieldOption {
  option: Option;
  /** The value's name in the help. */
  takes: string;
  field: string | undefined;
}

const optionsOf = (options: OptionDefinitions, operation: Operation | undefined): FieldOption[] => {
  const fields = { ...operation?.path, ...operation?.query, ...operation?.body };
  return Object.entries(options).map(([flags, given]) =>
    optionOf(flags, typeof given === "string" ? { says: given } : given, fields),
  );
};

const optionOf = (
  flags: string,
  { says = "", field: given, ...own }: OptionDefinition,
  fields: Readonly<Record<string, Field>>,
): FieldOption => {
  const [, name = "", takes = ""] = /^--(?:no-)?([a-z-]+)(?: <(.+)>)?$/.exec(flags) ?? [];
  const snake = name.replaceAll("-", "_");
  const field = given ?? (snake in fields ? snake : undefined);
  const { type = "string", choices, required = false } = fields[field ?? ""] ?? {};
  const isList = type === "array" || (type === "object" && takes === "key=value");
  const repeats = isList && takes !== "" && !own.choices && !own.parse;
  const option = new Option(
    flags,
    [says, ...(repeats ? ["repeatable"] : [])].join("; ").replace(/^; /, ""),
  );
  restrict(option, { ...own, takes, repeats, allowed: choices });
  if (own.conflicts) option.conflicts(own.conflicts);
  if (own.required ?? (required && takes !== "")) option.makeOptionMandatory();
  return { option, takes, field };
};

/** Limits the values of an option to its choices, or to what its parser accepts. */
const restrict = (
  option: Option,
  {
    takes,
    repeats,
    allowed,
    choices = allowed,
    parse: given,
    default: byDefault,
  }: OptionDefinition & { takes: string; repeats: boolean; allowed: readonly string[] | undefined },
): void => {
  const isOneOfFew = takes !== "" && choices !== undefined;
  if (isOneOfFew) option.choices(choices);
  const usual = isOneOfFew ? undefined : parserOf[takes];
  const parse = given ?? (repeats && takes !== "key=value" ? severalOf(choices) : usual);
  if (parse) option.argParser(parse as (text: string) => unknown);
  if (byDefault !== undefined)
    option.default(parse ? parse(byDefault) : byDefault, parse && byDefault);
};
