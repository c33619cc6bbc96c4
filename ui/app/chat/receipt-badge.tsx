import { Match, Show, Switch } from "solid-js";
import { CopyButton } from "../design/copy-button.tsx";
import { Icon } from "../design/icon.tsx";
import type { ShapeName } from "../design/shapes.ts";
import { formatCount } from "../format/format.ts";
import type { ReceiptStatus } from "./check-answers.ts";

const marks: Readonly<
  Record<ReceiptStatus["kind"] | "ephemeral", readonly [icon: ShapeName, word: string]>
> = {
  checking: ["info", "Checking receipt"],
  unsupported: ["info", "Cannot verify here"],
  unavailable: ["info", "Receipt not loaded"],
  unverified: ["warning", "Unverified"],
  verified: ["check", "Verified"],
  ephemeral: ["info", "Ephemeral key"],
};

/** Whether an answer is as core signed it, as icon and word; opens to explain what that proves and how to check it elsewhere. */
export const ReceiptBadge = (props: { status: ReceiptStatus }) => {
  const verified = () => (props.status.kind === "verified" ? props.status : undefined);
  const tone = () => (verified()?.ephemeral ? "ephemeral" : props.status.kind);
  const reason = () =>
    props.status.kind === "unverified" || props.status.kind === "unavailable"
      ? props.status.reason
      : undefined;
  return (
    <details class="receipt" data-status={tone()}>
      <summary>
        <Icon name={marks[tone()][0]} />
        {marks[tone()][1]}
        <span class="visually-hidden">: the receipt of this answer</span>
      </summary>
      <div class="receipt-facts">
        <Switch>
          <Match when={verified()}>
            {(proof) => (
              <>
                <p>
                  <Show
                    when={proof().ephemeral}
                    fallback="This browser checked the signatures: question, queries, results and answer are as core signed them."
                  >
                    This browser checked the signatures. Core made the key at its start and keeps it
                    in memory only, so nobody but this core vouches for it.
                  </Show>
                </p>
                <dl>
                  <dt>Receipts</dt>
                  <dd>
                    {formatCount(proof().first)} to {formatCount(proof().last)} of this conversation
                  </dd>
                  <dt>Key</dt>
                  <dd>
                    <code>{proof().keyIds.join(", ")}</code>
                  </dd>
                  <dt>SHA-256 of the answer</dt>
                  <dd class="copied">
                    <code>{proof().sha256}</code>
                    <CopyButton text={proof().sha256} what="hash" />
                  </dd>
                </dl>
              </>
            )}
          </Match>
          <Match when={props.status.kind === "unverified"}>
            <p>Do not rely on this answer: {reason()}.</p>
          </Match>
          <Match when={props.status.kind === "unavailable"}>
            <p>
              The receipts could not be loaded: {reason()}. Open the conversation again to retry.
            </p>
          </Match>
          <Match when={props.status.kind === "unsupported"}>
            <p>
              This browser cannot check Ed25519 signatures, or the page was not loaded over https.
            </p>
          </Match>
        </Switch>
        <p>
          To check it elsewhere, download the conversation and run{" "}
          <code>svc-server verify-receipts FILE</code>. It needs no network.
        </p>
      </div>
    </details>
  );
};
