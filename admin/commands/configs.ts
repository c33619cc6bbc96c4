import { getCollectorConfig } from "#client/index.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { type OutputOptions, printRecord, printText } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readInput } from "../terminal/token-file.ts";
import type { Action, AnswerOf } from "./command.ts";
import { resolveId } from "./names.ts";

/** Prints the YAML of a config, byte for byte unless to a terminal; with another `-o` the whole record. */
export const printConfig = async (
  terminal: Terminal,
  options: OutputOptions,
  config: AnswerOf<"getCollectorConfig">,
): Promise<void> => {
  if (options.format === "table") printText(terminal, config.yaml);
  else await printRecord(terminal, options, config);
};

/** `svc-admin configs diff`: prints the differences of two configs as a patch. Exits with 1 if they differ. */
export const diffConfigsAction: Action<object> = async (
  terminal,
  options,
  first = "",
  second = "",
) => {
  const client = connect(terminal, options);
  const [before, after] = await Promise.all(
    [first, second].map(async (name) => {
      const { data } = await getCollectorConfig<true>({
        client,
        path: { id: await resolveId(client, "config", name) },
      });
      return data.yaml;
    }),
  );
  const { createTwoFilesPatch } = await import("diff");
  if (before === after) return exitCodes.ok;
  printText(terminal, createTwoFilesPatch(first, second, before ?? "", after ?? ""));
  return exitCodes.refused;
};

/** Reads the file of a config to publish. */
export const readConfig = (_: Terminal, __: object, { file }: { file: string }) => ({
  yaml: readInput(file),
});
