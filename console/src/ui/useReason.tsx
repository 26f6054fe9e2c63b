import { App, Input } from "antd";
import { useCallback, type ReactNode } from "react";
import { useT } from "@/i18n";
import { Fault } from "./Fault";

interface Question {
  title: string;
  text: ReactNode;
  action: string;
  /** The button that leaves all as it is; "Cancel" unless told. */
  refusal?: string;
  isDanger?: boolean;
  /** The act needs a reason: the button stays closed without one. */
  isReasonNeeded?: boolean;
  run: (reason: string) => Promise<unknown>;
}

/** Asks before an act, says what it will do, and takes a reason. A failed act keeps the dialog and shows why. */
export function useReason(): (question: Question) => void {
  const t = useT();
  const { modal } = App.useApp();
  return useCallback(
    ({ title, text, action, refusal, isDanger = false, isReasonNeeded = true, run }) => {
      let reason = "";
      const isReady = () => !isReasonNeeded || reason.trim() !== "";
      const content = (fault?: unknown) => (
        <div className="stack tight">
          <div>{text}</div>
          {isReasonNeeded ? (
            <label className="stack tight" style={{ gap: 4 }}>
              {t("reason")}
              <Input.TextArea
                maxLength={500}
                rows={2}
                onChange={({ target }) => {
                  reason = target.value;
                  shown.update({ okButtonProps: { danger: isDanger, disabled: !isReady() } });
                }}
              />
            </label>
          ) : null}
          <Fault error={fault} />
        </div>
      );
      const act = async () => {
        try {
          await run(reason.trim());
        } catch (error) {
          shown.update({ content: content(error) });
          throw error; // keeps the dialog open
        }
      };
      const shown = modal.confirm({
        title,
        content: content(),
        okText: action,
        cancelText: refusal ?? t("cancel"),
        okButtonProps: { danger: isDanger, disabled: !isReady() },
        onOk: act,
      });
      // Whoever waits for the answer sees the error in the dialog; without this it is also thrown at the window.
      void shown.then(() => undefined, () => undefined);
    },
    [modal, t],
  );
}
