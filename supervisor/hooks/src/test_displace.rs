//! Displaced instructions, decoded again and compared with what the original means.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use super::*;

const ORIGINAL: u64 = 0x5555_5555_6000;
const NEAR: u64 = 0x5555_5545_0000;
const FAR: u64 = 0x1_0000_0000;

/// The displaced code as instructions; stops behind the first unconditional jump or return.
fn decoded(displaced: &Displaced, scratch: u64) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, &displaced.bytes, scratch, DecoderOptions::NONE);
    let mut list = Vec::new();
    for instruction in decoder {
        list.push(instruction);
        if matches!(instruction.mnemonic(), Mnemonic::Jmp | Mnemonic::Ret) {
            break;
        }
    }
    list
}

/// Where a jump goes, through its literal if it is an indirect one.
fn jump_target(instruction: &Instruction, displaced: &Displaced, scratch: u64) -> u64 {
    assert_eq!(instruction.mnemonic(), Mnemonic::Jmp);
    if instruction.op0_kind() == OpKind::NearBranch64 {
        return instruction.near_branch64();
    }
    assert!(instruction.is_ip_rel_memory_operand());
    let literal = (instruction.ip_rel_memory_address() - scratch) as usize;
    u64::from_le_bytes(
        displaced.bytes[literal..literal + 8]
            .try_into()
            .expect("eight bytes"),
    )
}

#[test]
fn plain_instructions_are_copied_and_jump_back() {
    let table: &[&[u8]] = &[
        b"\xf3\x0f\x1e\xfa",                         // endbr64
        b"\x41\x56",                                 // push r14
        b"\x48\x83\xec\x08",                         // sub rsp, 8
        b"\xf0\xff\x0f",                             // lock dec dword [rdi]
        b"\xf0\x48\x0f\xc7\x4c\x24\x10",             // lock cmpxchg16b [rsp+16]
        b"\x87\x07",                                 // xchg [rdi], eax
        b"\xf3\x90",                                 // pause
        b"\x64\x8b\x04\x25\x10\x00\x00\x00",         // mov eax, fs:[16]
        b"\x66\x0f\x1f\x84\x00\x00\x00\x00\x00",     // a long nop
        b"\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", // mov rax, imm64
        b"\xf3\x48\xa5",                             // rep movsq
    ];
    for code in table {
        for scratch in [NEAR, FAR] {
            let displaced = displace(code, ORIGINAL, scratch).expect("displaces");
            assert_eq!(&displaced.bytes[..code.len()], *code);
            assert_eq!((displaced.len, displaced.body), (code.len(), code.len()));
            let list = decoded(&displaced, scratch);
            let target = jump_target(&list[1], &displaced, scratch);
            assert_eq!(target, ORIGINAL + code.len() as u64);
        }
    }
}

#[test]
fn rip_relative_operands_keep_their_target() {
    let table: &[&[u8]] = &[
        b"\x8b\x05\x34\x12\x00\x00",                 // mov eax, [rip+0x1234]
        b"\xf0\xff\x05\x34\x12\x00\x00",             // lock inc dword [rip+..]
        b"\x48\x8d\x3d\xf0\xff\xff\xff",             // lea rdi, [rip-16]
        b"\xc7\x05\x34\x12\x00\x00\x2a\x00\x00\x00", // mov dword [rip+..], 42: an immediate follows
        b"\x80\x3d\x34\x12\x00\x00\x00",             // cmp byte [rip+..], 0
        b"\xc5\xfe\x6f\x05\x34\x12\x00\x00",         // vmovdqu ymm0, [rip+..]
        b"\x62\xf1\x7c\x48\x10\x05\x34\x12\x00\x00", // vmovups zmm0, [rip+..]
    ];
    for code in table {
        let original = Decoder::with_ip(64, code, ORIGINAL, DecoderOptions::NONE).decode();
        let displaced = displace(code, ORIGINAL, NEAR).expect("displaces");
        let moved = decoded(&displaced, NEAR)[0];
        assert_eq!(moved.code(), original.code());
        assert_eq!(
            moved.ip_rel_memory_address(),
            original.ip_rel_memory_address(),
            "{code:x?}"
        );
        assert_eq!(moved.immediate32(), original.immediate32());
        assert_eq!(
            displace(code, ORIGINAL, FAR),
            Err(DisplaceError::OutOfReach(ORIGINAL))
        );
    }
}

#[test]
fn calls_push_the_original_return_address() {
    let relative = b"\xe8\x10\x00\x00\x00";
    for (original, scratch) in [
        (ORIGINAL, NEAR),
        (ORIGINAL, FAR),
        (0x40_1000, 0x2_0000),
        (0x9000_0000, 0x8000_0000),
    ] {
        let displaced = displace(relative, original, scratch).expect("displaces");
        let list = decoded(&displaced, scratch);
        let next = original + 5;
        assert_eq!(list[0].mnemonic(), Mnemonic::Push);
        let mut pushed = list[0].immediate(0);
        if list.len() == 3 {
            assert_eq!(
                (
                    list[1].mnemonic(),
                    list[1].memory_base(),
                    list[1].memory_displacement64()
                ),
                (Mnemonic::Mov, Register::RSP, 4)
            );
            pushed = pushed & 0xffff_ffff | u64::from(list[1].immediate32()) << 32;
        }
        assert_eq!(pushed, next);
        assert_eq!(
            jump_target(list.last().expect("a jump"), &displaced, scratch),
            next + 0x10
        );
    }
    let through_register = displace(b"\xff\xd0", ORIGINAL, NEAR).expect("call rax");
    let jump = *decoded(&through_register, NEAR).last().expect("a jump");
    assert_eq!(
        (jump.mnemonic(), jump.op0_register()),
        (Mnemonic::Jmp, Register::RAX)
    );
    let through_stack = displace(b"\xff\x54\x24\x10", ORIGINAL, NEAR).expect("call [rsp+16]");
    assert_eq!(
        decoded(&through_stack, NEAR)
            .last()
            .expect("a jump")
            .memory_displacement64(),
        24
    );
    let through_got = displace(b"\xff\x15\x34\x12\x00\x00", ORIGINAL, NEAR).expect("call [rip+..]");
    let jump = *decoded(&through_got, NEAR).last().expect("a jump");
    assert_eq!(jump.ip_rel_memory_address(), ORIGINAL + 6 + 0x1234);
    assert_eq!(
        displace(b"\xff\x54\x24\xf8", ORIGINAL, NEAR),
        Err(DisplaceError::Unsupported(ORIGINAL)),
        "call [rsp-8]"
    );
    assert_eq!(
        displace(b"\xff\xd4", ORIGINAL, NEAR),
        Err(DisplaceError::Unsupported(ORIGINAL)),
        "call rsp"
    );
}

#[test]
fn branches_keep_both_ways() {
    let table: &[(&[u8], Mnemonic)] = &[
        (b"\x74\x10", Mnemonic::Je),
        (b"\x0f\x8f\x10\x00\x00\x00", Mnemonic::Jg),
        (b"\x7e\xf0", Mnemonic::Jle),
    ];
    for (code, mnemonic) in table {
        let original = Decoder::with_ip(64, code, ORIGINAL, DecoderOptions::NONE).decode();
        let displaced = displace(code, ORIGINAL, NEAR).expect("displaces");
        let list = decoded(&displaced, NEAR);
        assert_eq!(list[0].mnemonic(), *mnemonic);
        assert_eq!(list[0].near_branch64(), original.near_branch64());
        assert_eq!(
            jump_target(&list[1], &displaced, NEAR),
            ORIGINAL + code.len() as u64
        );
        displace(code, ORIGINAL, FAR).expect("goes through literals");
    }
    for code in [b"\xe2\x10", b"\xe3\x10"] {
        displace(code, ORIGINAL, NEAR).expect("loop and jrcxz get a trampoline");
    }
    let jump = displace(b"\xe9\x10\x00\x00\x00", ORIGINAL, NEAR).expect("jmp");
    assert_eq!(
        jump_target(&decoded(&jump, NEAR)[0], &jump, NEAR),
        ORIGINAL + 5 + 0x10
    );
}

#[test]
fn system_calls_returns_and_oddities() {
    let call = displace(b"\x0f\x05", ORIGINAL, NEAR).expect("syscall");
    let list = decoded(&call, NEAR);
    assert_eq!(
        (list[0].mnemonic(), list[1].op0_register()),
        (Mnemonic::Syscall, Register::RCX)
    );
    assert_eq!(list[1].immediate64(), ORIGINAL + 2);
    let ret = displace(b"\xc3", ORIGINAL, NEAR).expect("ret");
    assert_eq!(ret.bytes, b"\xc3");
    let trap = displace(b"\x0f\x0b", ORIGINAL, NEAR).expect("ud2");
    assert_eq!(trap.bytes, b"\x0f\x0b");
    assert_eq!(
        displace(b"\x06", ORIGINAL, NEAR),
        Err(DisplaceError::Invalid(ORIGINAL))
    );
    assert_eq!(
        displace(b"\x48", ORIGINAL, NEAR),
        Err(DisplaceError::Invalid(ORIGINAL)),
        "cut short"
    );
    assert_eq!(
        displace(b"\xc7\xf8\x10\x00\x00\x00", ORIGINAL, NEAR),
        Err(DisplaceError::Unsupported(ORIGINAL)),
        "xbegin"
    );
}

#[test]
fn every_instruction_of_libc_can_be_displaced() {
    let bytes = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").expect("libc is readable");
    let module = super::super::elf::Module::parse(&bytes).expect("libc parses");
    let functions = super::super::functions::Functions::of(&module);
    let (mut moved, mut refused) = (0, 0);
    for range in &functions.ranges {
        let Some(code) = module.code_at(range.start).and_then(|code| code.slice(range)) else {
            continue;
        };
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let position = decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            match displace(&code[position..], instruction.ip(), 0x4000_0000) {
                Ok(displaced) => {
                    assert!(
                        displaced.bytes.len() <= 32,
                        "{instruction:?} needs more than a slot"
                    );
                    moved += 1;
                }
                Err(DisplaceError::Unsupported(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(moved > 100_000);
    assert!(refused < 200, "only transactions are refused: {refused}");
}
