import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { programPaths } from "../bundle/bundle-programs.ts";
import { execute } from "../execute.ts";
import { readReceiptKeys, type SendChat, startConversation } from "../lab/chat-client.ts";
import type { LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import { signInAnew } from "../lab/walk-sign-in.ts";

const question = "Is anything wrong with the fleet?";

/**
 * Asks a question as Grace, through web, and compares the answer with the tables; then verifies the receipts of the conversation offline,
 * and again with one byte changed.
 */
export const checkChat = async (
  { sql }: Deployment,
  { origin }: { origin: string },
  { dir }: LabContext,
) => {
  const agent = await signInAnew(origin, "auditor", "/fleet");
  const send: SendChat = (path, init) =>
    agent.fetch(`${origin}/api/core/chat${path}`, {
      ...init,
      headers: { ...init?.headers, Origin: origin },
    });
  const conversation = await startConversation(send);
  const { text } = await conversation.ask(question);
  const [row] = await sql<
    { hosts: number }[]
  >`select count(*)::int as hosts from collector_identity`;
  const answered = Number(/of ([\d,]+) needs? attention/.exec(text)?.[1]?.replaceAll(",", ""));

  const { raw, file } = await conversation.receipts();
  const keysFile = join(dir, "receipt-keys.json");
  await writeFile(keysFile, JSON.stringify(await readReceiptKeys(send)));
  const verify = async (
    name: string,
    content: string,
  ): Promise<{ ok: boolean; fault: { seq: number } | null }> => {
    const path = join(dir, name);
    await writeFile(path, content);
    const args = [programPaths["svc-server"], "verify-receipts", path, "--keys", keysFile];
    // The command exits with 1 when receipts do not verify, and prints why.
    const { stdout } = await execute(process.execPath, args, { env: {} }).catch(
      (error: { stdout: string }) => error,
    );
    return JSON.parse(stdout);
  };
  const verified = await verify("receipts.json", raw);
  const seq = 1 + file.items.findIndex(({ kind }) => kind === "answer");
  const tampered = await verify(
    "receipts-tampered.json",
    raw.replace("need attention", "need attentiom"),
  );
  return {
    question,
    // The first line of the answer after what the model says before it queries, and the rows of the table.
    answer: text.split("\n").find((line) => line.includes("need attention")) ?? text.slice(0, 200),
    hosts: row?.hosts,
    receipts: file.items.length,
    receipts_verify: verified.ok,
    // The receipt that verification names when one byte of the answer was changed.
    tampered_seq: tampered.fault?.seq ?? null,
    ok: answered === row?.hosts && verified.ok && !tampered.ok && tampered.fault?.seq === seq,
  };
};
