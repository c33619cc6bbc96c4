import { usageError } from "../terminal/exit-codes.ts";
import { type OutputOptions, printRecord } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { writeTokenFile } from "../terminal/token-file.ts";
import type { AnswerOf } from "./command.ts";

interface TokenOptions extends OutputOptions {
  out?: string;
  show?: boolean;
}

/** Creates the file of a token before core creates the token, which core shows only once. Throws where the file cannot be written. */
export const reserveTokenFile = async (_: Terminal, { out, show = false }: TokenOptions) => {
  const goesToFile = out !== undefined;
  if (goesToFile === show)
    throw usageError("say where the token goes: --out FILE, or --show for stdout");
  if (goesToFile) writeTokenFile(out, "");
  // `prepare` returns members of the body.
  return {};
};

/** Writes a token to a file that only the person may read, or to stdout if asked. */
export const printToken = async (
  terminal: Terminal,
  options: TokenOptions,
  { token, ...record }: AnswerOf<"createBootstrapToken">,
) => {
  const { out, format } = options;
  if (out !== undefined) {
    writeTokenFile(out, `${token}\n`);
    terminal.err.write(`The token is in ${out}, which only you can read.\n`);
    await printRecord(terminal, options, record);
  } else if (format === "table") {
    terminal.out.write(`${token}\n`);
  } else {
    await printRecord(terminal, options, { ...record, token });
  }
};
