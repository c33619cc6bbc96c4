import { createSignal, lazy, Show } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import type { FleetView } from "../view/view-state.ts";

const FactorList = lazy(async () => ({ default: (await import("./factor-list.tsx")).FactorList }));

/** What the hosts of the view have in common, in a popover. */
export const FactorsMenu = (props: { view: FleetView }) => {
  const [isOpen, setIsOpen] = createSignal(false);
  return (
    <>
      <button class="button" type="button" popovertarget="factors-menu">
        In common
      </button>
      <section
        id="factors-menu"
        class="popover factors"
        popover="auto"
        aria-label="What these hosts have in common"
        tabindex="0"
        onToggle={(event) => setIsOpen(event.newState === "open")}
      >
        <Show when={isOpen()}>
          <LazyPart what="What these hosts have in common">
            <FactorList view={props.view} />
          </LazyPart>
        </Show>
      </section>
    </>
  );
};
