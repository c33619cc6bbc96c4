import { createSignal, lazy, Show } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import type { FleetView } from "../view/view-state.ts";

const HistoryStrip = lazy(async () => ({ default: (await import("./history-strip.tsx")).HistoryStrip }));

/** The history of the fleet: in a popover of a button or, on a page of the past, in its place. */
export const HistoryMenu = (props: { view: FleetView; paused: boolean }) => {
  const [isOpen, setIsOpen] = createSignal(false);
  return (
    <>
      <button class="button" type="button" popovertarget="history-menu">
        History
      </button>
      <section
        id="history-menu"
        class="popover history-popover"
        popover="auto"
        aria-label="History"
        tabindex="0"
        onToggle={(event) => setIsOpen(event.newState === "open")}
      >
        <Show when={isOpen()}>
          <HistoryPart {...props} />
        </Show>
      </section>
    </>
  );
};

/** The strip, which is loaded when it is shown. */
export const HistoryPart = (props: { view: FleetView; paused: boolean }) => (
  <LazyPart what="The history">
    <HistoryStrip view={props.view} paused={props.paused} />
  </LazyPart>
);
