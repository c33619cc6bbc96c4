import { Match, Show, Switch } from "solid-js";
import { AuditChainView } from "../../../proto/audit-event.ts";
import { createReport } from "../api/create-report.ts";
import { Icon } from "../design/icon.tsx";
import { formatCount, formatCountOf, formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

type Fault = NonNullable<AuditChainView["fault"]>;

const faultTexts: Readonly<Record<Fault["kind"], string>> = {
  gap: "is missing from the chain",
  chain_broken: "does not follow the one before it",
  event_missing: "was deleted",
  event_edited: "was edited",
};

/** How much of the hash chain core has verified, and since when: never more than it checked. */
export const ChainStatus = () => {
  const { times } = usePageContext();
  const report = createReport({
    schema: AuditChainView,
    path: () => "/api/core/audit-events/chain",
    intervalMs: 15_000,
  });
  const chain = () => report.current();
  const checkedText = (verified: AuditChainView["verified"]): string => {
    const since = formatTimestamp(verified?.checked_since ?? "", times.zone());
    const until = formatTimestamp(verified?.checked_at ?? "", times.zone());
    return since === until ? `at ${until}` : `between ${since} and ${until}`;
  };
  return (
    <Switch fallback={<p class="chain-status">Hash chain: loading</p>}>
      <Match when={report.phase() === "failed"}>
        <p class="chain-status">
          <Icon name="warning" /> The state of the hash chain could not be loaded.
        </p>
      </Match>
      <Match when={chain()?.fault}>
        {(fault) => (
          <p class="banner chain-fault" role="alert">
            <Icon name="warning" />
            <span>
              The hash chain has a fault: event {formatCount(fault().seq)}{" "}
              {faultTexts[fault().kind]}. Events from there on are not verified. Run{" "}
              <code>svc-server verify-audit</code> and compare with the heads in core's log.
            </span>
          </p>
        )}
      </Match>
      <Match when={chain()?.verified ? chain() : undefined}>
        {(known) => (
          <p class="chain-status">
            <Icon name="check" />
            <span>
              Hash chain verified up to event {formatCount(known().verified?.seq ?? 0)} of{" "}
              {formatCount(known().head?.seq ?? 0)}, each checked {checkedText(known().verified)}
              <Show when={known().pending > 0}>
                ; {formatCountOf(known().pending, "event")} not linked yet
              </Show>
              <Show when={report.phase() === "stale"}> (old)</Show>.
            </span>
          </p>
        )}
      </Match>
      <Match when={chain()}>
        <p class="chain-status">
          <Icon name="info" /> The hash chain has not been verified yet.
        </p>
      </Match>
    </Switch>
  );
};
