import { useEffect } from "react";

const FOCUSABLE = 'a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), summary, [tabindex="0"]';

/** Whether an element can still have the focus: it is drawn and not closed. */
const isUsable = (one: Element): boolean => one.isConnected && !one.matches(":disabled") && one.getClientRects().length > 0;

/**
 * When a redraw takes away or closes the element that has the focus, the browser gives it to the document, and the next
 * Tab starts at the top. This gives it to the nearest part of the page that is left.
 */
export function useKeptFocus(): void {
  useEffect(() => {
    let chain: Element[] = [];
    const remember = (event: FocusEvent) => {
      chain = [];
      for (let one = event.target as Element | null; one && one !== document.body; one = one.parentElement) chain.push(one);
    };
    const repair = () => {
      if (document.activeElement !== document.body || !chain.length || isUsable(chain[0]!)) return;
      const main = document.querySelector("main");
      if (!main) return; // between two pages: the next one brings it
      const left = chain.slice(1).filter((one) => one !== main && main.contains(one) && isUsable(one));
      const near = left.flatMap((one) => [...one.querySelectorAll<HTMLElement>(FOCUSABLE)].find(isUsable) ?? []);
      chain = [];
      (near[0] ?? main).focus({ preventScroll: true });
    };
    // After the frame: a dialog that closes returns the focus by itself.
    let frame = 0;
    const observer = new MutationObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(repair);
    });
    document.addEventListener("focusin", remember);
    observer.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["disabled", "style", "class"] });
    return () => {
      document.removeEventListener("focusin", remember);
      observer.disconnect();
    };
  }, []);
}
