import { refusalError, usageError } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Names what a command will hit, and asks; `--yes` answers for scripts. Throws unless the answer is yes, and where nobody can answer:
 * a script without `--yes` changes nothing.
 */
export const confirm = async (
  terminal: Terminal,
  { yes }: { yes: boolean },
  what: string,
): Promise<void> => {
  terminal.err.write(`${what}\n`);
  if (yes) return;
  if (!terminal.isInteractive)
    throw usageError("nothing was changed: add --yes to do this without a question");
  const answer = await terminal.ask("Continue? [y/N] ");
  if (!/^y(es)?$/i.test(answer.trim())) throw refusalError("nothing was changed");
};
